/* Opens ferry with the driver "auto", "cuda" or the default, and prints the result, for driver_search.py to compare. */
#include "ferry/ferry.h"
#include "ferry/ferry_devices.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    ferry_options options = {.struct_size = sizeof options};
    ferry_error_info error = {.struct_size = sizeof error};
    ferry_report report = {.struct_size = sizeof report};
    ferry_instance *ferry = NULL;
    if (argc > 1 && strcmp(argv[1], "cuda") == 0) options.driver = FERRY_DRIVER_CUDA;
    if (argc > 1 && strcmp(argv[1], "auto") == 0) options.driver = FERRY_DRIVER_AUTO;
    const int32_t status = ferry_open(&options, &ferry, &error);
    if (status)
        printf("%d %s value %llu\n", status, ferry_status_name(status), (unsigned long long)error.value);
    else if (ferry_instance_get_report(ferry, &report, NULL) == FERRY_SUCCESS)
        printf("driver %d because %s\n", report.driver, ferry_status_name(report.fallback_reason));
    ferry_close(ferry);
    return 0;
}
