// libFuzzer's two entry points, shared by all targets. Each target defines `fuzz` and `seeds`.

import Glibc

/// libFuzzer's call for one input.
@c(LLVMFuzzerTestOneInput)
public func fuzzOneInput(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    // libFuzzer's buffer lives for as long as the call.
    fuzz(unsafe Span<UInt8>(_unsafeStart: start, byteCount: count))
    return 0
}

/// Called once before the first input. With FUZZ_SEEDS in the environment, the target writes its seeds into that
/// directory and ends.
@c(LLVMFuzzerInitialize)
public func fuzzInitialize(
    _ count: UnsafeMutablePointer<CInt>,
    _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>>>
) -> CInt {
    guard let directory = unsafe getenv("FUZZ_SEEDS") else { return 0 }
    let path = unsafe String(cString: directory)
    for (index, seed) in seeds().enumerated() {
        guard let file = unsafe fopen("\(path)/seed-\(index)", "w") else { exit(1) }
        unsafe fwrite(seed, 1, seed.count, file)
        unsafe fclose(file)
    }
    exit(0)
}

/// Ends the process, so that libFuzzer keeps the input, unless the condition holds.
func check(_ condition: Bool, _ message: StaticString) {
    if !condition { fatalError("\(message)") }
}

/// Small numbers for seeds, always the same.
func pattern(_ count: Int, from first: UInt8 = 1) -> [UInt8] {
    (0..<count).map { first &+ UInt8(truncatingIfNeeded: $0) }
}
