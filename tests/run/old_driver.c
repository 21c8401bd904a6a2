/* A driver for CUDA 11.8, as ferry-run sees one. */
__attribute__((visibility("default"))) int cuDriverGetVersion(int *version) {
    *version = 11080;
    return 0;
}
