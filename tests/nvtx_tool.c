/* A tool for NVTX's ranges, which keeps them: nvtx_test.cpp loads it as Nsight Systems' would be. */
#include <nvtx3/nvToolsExt.h>

#include <stdio.h>

enum { most = 64 };
static char lines[most][80];
static int count, depth;
static char the_domain, domain_name[16];

static nvtxDomainHandle_t NVTX_API create_domain(const char *name) {
    snprintf(domain_name, sizeof domain_name, "%s", name);
    return (nvtxDomainHandle_t)(void *)&the_domain;
}

static int NVTX_API push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *range) {
    if (domain != (void *)&the_domain || range->version != NVTX_VERSION || range->size != sizeof *range ||
        range->messageType != NVTX_MESSAGE_TYPE_ASCII || range->payloadType != NVTX_PAYLOAD_TYPE_UNSIGNED_INT64)
        return NVTX_NO_PUSH_POP_TRACKING;
    if (count < most)
        snprintf(lines[count++], sizeof lines[0], "%d %s %llu", depth, range->message.ascii,
                 (unsigned long long)range->payload.ullValue);
    return depth++;
}

static int NVTX_API pop(nvtxDomainHandle_t domain) { return domain == (void *)&the_domain ? --depth : -1; }

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table);
const char *nvtx_tool_line(int index);
int nvtx_tool_depth(void);
const char *nvtx_tool_domain(void);
void nvtx_tool_forget(void);

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
    const NvtxExportTableCallbacks *const callbacks = (const NvtxExportTableCallbacks *)get_table(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable functions;
    unsigned int size;
    if (!callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &functions, &size)) return 0;
    *functions[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)create_domain;
    *functions[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)push;
    *functions[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)pop;
    return 1;
}

/* For the test. */
const char *nvtx_tool_line(int index) { return index < count ? lines[index] : NULL; }
int nvtx_tool_depth(void) { return depth; }
const char *nvtx_tool_domain(void) { return domain_name; }
void nvtx_tool_forget(void) { count = 0; }
