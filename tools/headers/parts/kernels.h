#define TF_InputRange_Args_STRUCT_SIZE TF_OFFSET_OF_END(TF_InputRange_Args, status)

#ifdef __cplusplus
extern "C" {
#endif
// Defined by a plug-in for a device: registers its kernels. Libraries for TF_LoadLibrary register theirs in constructors.
void TF_InitKernel(void);
#ifdef __cplusplus
}
#endif
