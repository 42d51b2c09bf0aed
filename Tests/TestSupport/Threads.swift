// Threads for the tests of several modules.

internal import Glibc

private final class Work {
    let body: @Sendable () -> Void
    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
}

/// Runs `body` in `count` threads at once and waits for all of them.
package func inThreads(_ count: Int, _ body: @Sendable (Int) -> Void) {
    withoutActuallyEscaping(body) { body in
        var threads = [pthread_t]()
        for index in 0..<count {
            let work = Work { body(index) }
            var thread = pthread_t()
            let result = unsafe pthread_create(
                &thread, nil,
                { argument in
                    // Retained for this thread alone below.
                    guard let argument = unsafe argument else { return nil }
                    unsafe Unmanaged<Work>.fromOpaque(argument).takeRetainedValue().body()
                    return nil
                }, unsafe Unmanaged.passRetained(work).toOpaque())
            precondition(result == 0)
            threads.append(thread)
        }
        for thread in threads { pthread_join(thread, nil) }
    }
}
