// Notifications as an asynchronous sequence, which Foundation on Linux lacks.

extension NotificationCenter {
    /// The notifications of a center (Apple's `NotificationCenter.Notifications`). Those that are posted from the beginning of
    /// the iteration on are given, in order.
    public struct Notifications: AsyncSequence, @unchecked Sendable {
        private let center: NotificationCenter
        private let name: Notification.Name
        private let object: AnyObject?

        fileprivate init(_ center: NotificationCenter, _ name: Notification.Name, _ object: AnyObject?) {
            (self.center, self.name, self.object) = (center, name, object)
        }

        /// Begins to observe.
        public func makeAsyncIterator() -> Iterator { Iterator(center, name, object) }

        /// Gives one notification after the other, and observes until it is released.
        public struct Iterator: AsyncIteratorProtocol {
            private struct Posted: @unchecked Sendable { let notification: Notification }
            private struct Token: @unchecked Sendable { let token: any NSObjectProtocol }
            private var posted: AsyncStream<Posted>.Iterator

            fileprivate init(_ center: NotificationCenter, _ name: Notification.Name, _ object: AnyObject?) {
                let (stream, continuation) = AsyncStream.makeStream(of: Posted.self)
                let token = Token(
                    token: center.addObserver(forName: name, object: object, queue: nil) {
                        continuation.yield(Posted(notification: $0))
                    })
                continuation.onTermination = { _ in center.removeObserver(token.token) }
                posted = stream.makeAsyncIterator()
            }

            /// The next notification; nil if the task was cancelled.
            public mutating func next() async -> Notification? { await posted.next()?.notification }
        }
    }

    /// The notifications of a name from now on (`NotificationCenter.notifications(named:object:)`).
    ///
    /// - Parameters:
    ///   - name: the name.
    ///   - object: the object that posts them; nil for all.
    public func notifications(named name: Notification.Name, object: AnyObject? = nil) -> Notifications {
        Notifications(self, name, object)
    }
}
