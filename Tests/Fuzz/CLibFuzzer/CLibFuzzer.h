// libFuzzer's entry for programs with a main function of their own (FuzzerDriver.cpp of LLVM, which installs no header for it).

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerRunDriver(int *count, char ***arguments, int (*fuzz)(const uint8_t *bytes, size_t count));
