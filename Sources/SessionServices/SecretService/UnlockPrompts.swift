// The prompts of the Secret Service: a client shows one, and the passphrase command asks the person for the passphrase.

import CLibrary
import DBus
import HostSystem

/// The prompts that clients have been given and that are not completed yet. One thread uses it.
final class UnlockPrompts {
    struct Prompt {
        let number: UInt64
        /// The client that may show it.
        let client: String
        /// The objects that the client wants unlocked.
        let objects: [String]
        /// Whether the client has shown it.
        fileprivate(set) var isShown = false
    }

    /// A client that ends leaves its prompts. The oldest make room.
    private static let most = 100
    /// The most objects of one prompt.
    private static let mostObjects = 1000

    /// Asks and unlocks, in a thread of its own; nil if nothing is there to ask with.
    private let ask: (@Sendable () -> Void)?
    private var prompts: [Prompt] = []
    private var lastNumber: UInt64 = 0
    /// The read end of a pipe that closes when `ask` has returned; nil while nobody is asked.
    private var asking: Descriptor?

    /// Makes an empty set.
    init(ask: (@Sendable () -> Void)?) { self.ask = ask }

    /// A prompt for a client; nil if nothing is there to ask with.
    func make(for client: String, _ objects: [String]) throws(DBusError) -> ServicePath? {
        guard ask != nil else { return nil }
        guard objects.count <= Self.mostObjects else {
            throw .limit("one prompt is for \(Self.mostObjects) objects at most; the collection stands for all items")
        }
        if prompts.count >= Self.most, let oldest = prompts.firstIndex(where: { !$0.isShown }) ?? prompts.indices.first
        {
            prompts.remove(at: oldest)
        }
        lastNumber += 1
        prompts.append(Prompt(number: lastNumber, client: client, objects: objects))
        return .prompt(lastNumber)
    }

    /// Whether a prompt is there.
    func has(_ number: UInt64) -> Bool { prompts.contains { $0.number == number } }

    /// Shows a prompt. If somebody is being asked already, that answer counts for this prompt, too.
    func show(_ number: UInt64, for client: String) throws(DBusError) {
        let index = try index(number, client)
        if asking == nil { try start() }
        prompts[index].isShown = true
    }

    /// Takes a prompt back. The question stays on the screen, because its command cannot be told to end.
    func dismiss(_ number: UInt64, for client: String) throws(DBusError) -> Prompt {
        prompts.remove(at: try index(number, client))
    }

    /// Ready when the answer has come; never while nobody is asked.
    var pollEntry: PollEntry { PollEntry(asking?.number ?? -1) }

    /// Ends the question, and gives the prompts that it was for.
    func finish() -> [Prompt] {
        asking = nil
        defer { prompts.removeAll(where: \.isShown) }
        return prompts.filter(\.isShown)
    }

    private func index(_ number: UInt64, _ client: String) throws(DBusError) -> Int {
        guard let index = prompts.firstIndex(where: { $0.number == number && $0.client == client }) else {
            throw .noSuchObject
        }
        return index
    }

    private func start() throws(DBusError) {
        guard let ask else { throw .noSuchObject }
        do throws(SystemError) {
            var pipe = try Pipe()
            let reading = pipe.reading.take()
            let writing = pipe.writing.take()?.release() ?? -1
            let thread = BackgroundThread(name: "prompt") {
                ask()
                _ = Descriptor(taking: writing)
            }
            guard thread != nil else {
                _ = Descriptor(taking: writing)
                throw SystemError(code: EAGAIN, call: "pthread_create", subject: "")
            }
            asking = reading
        } catch {
            throw .failed(error.reason)
        }
    }
}
