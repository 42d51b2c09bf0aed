// The C library: Glibc, or Musl in programs that are linked statically. No other module names it.

#if canImport(Musl)
    @_exported public import Musl
#else
    @_exported public import Glibc
#endif
