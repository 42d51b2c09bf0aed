// Serves one connection: reads requests and sends answers until it ends or exceeds a limit.

import CLibrary
import Keybag
import HostSystem
import SodiumKit
import VolumeFormat

extension ControlServer {
    /// Serves `channel` until its client is gone, is too slow, or sends something other than a request.
    ///
    /// - Parameter first: the first request, if it has been read already.
    func serve(_ channel: Channel, first: [UInt8]? = nil) {
        var isSubscriber = false
        var given = first
        while true {
            let frame: [UInt8]
            if let first = given.take() {
                frame = first
            } else {
                note(channel, isIdle: true)
                do throws(ChannelError) {
                    let start = isSubscriber ? nil : monotonicNanoseconds() + Self.nanoseconds(limits.idle)
                    frame = try channel.receive(start: start, duration: Self.nanoseconds(limits.transfer))
                } catch .tooLarge {
                    answer(channel, Self.tooLarge)
                    return
                } catch {
                    return
                }
                note(channel, isIdle: false)
            }
            let request: JSONValue
            do throws(JSONError) {
                request = try JSONValue(parsing: frame)
            } catch {
                answer(channel, Self.refusal(ControlFailure(code: "malformed", message: "not JSON: \(error)")))
                return
            }
            guard let name = request["request"]?.text else {
                answer(channel, Self.refusal(ControlFailure(code: "malformed", message: "no request named")))
                return
            }
            switch name {
            case "subscribe":
                isSubscriber = subscribe(channel, request) || isSubscriber
                if isSubscriber { noteSubscriber(channel) }
            case "done":
                if let id = request["id"]?.integer { events.done(channel, id) }
            default:
                guard answer(channel, reply(name, request, channel)) else { return }
            }
        }
    }

    static func nanoseconds(_ seconds: Double) -> UInt64 { UInt64(seconds * 1e9) }

    @discardableResult
    private func answer(_ channel: Channel, _ value: JSONValue) -> Bool {
        let deadline = monotonicNanoseconds() + Self.nanoseconds(limits.transfer)
        return (try? channel.send(value, deadline: deadline)) != nil
    }

    private func subscribe(_ channel: Channel, _ request: JSONValue) -> Bool {
        let added = events.add(
            channel, waits: request["wait"]?.bool ?? false, limit: limits.subscribers
        ) {
            Self.success(["state": .string("\(handler.status().state.attributeValue)")])
        }
        if !added { answer(channel, Self.refusal(ControlFailure(code: "busy", message: "too many subscribers"))) }
        return added
    }

    static func success(_ value: JSONValue) -> JSONValue {
        .object([JSONMember("ok", true)] + (value.members ?? []))
    }

    private func reply(_ name: String, _ request: JSONValue, _ channel: Channel) -> JSONValue {
        let user = channel.peer?.user
        do throws(ControlFailure) {
            switch name {
            case "status": return Self.success(handler.status().json)
            case "info": return Self.success(try handler.info())
            case "lock": return Self.success(try handler.lock(LockRequest(request), by: user).json)
            case "unlock": return Self.success(["outcome": .string(try unlock(request, channel).word)])
            case "unmount":
                try handler.unmount(isForced: request["force"]?.bool ?? false, by: user)
                return Self.success(.null)
            case "class":
                let change = try Self.classRequest(request)
                var reports = ProgressReports(channel)
                try handler.changeClass(change, by: user) { reports.send($0) }
                return Self.success(.null)
            case "renewKey":
                guard let renewal = RenewalRequest(request) else {
                    throw ControlFailure(code: "malformed", message: "renewKey needs a relative path")
                }
                var reports = ProgressReports(channel)
                return Self.success(try handler.renewKey(renewal) { reports.send($0) }.json)
            case "formerKeys": return Self.success(try handler.formerKeys().json)
            case "prove":
                guard let challenge = request["challenge"]?.text.flatMap({ MountChallenge($0) }) else {
                    throw ControlFailure(code: "malformed", message: "prove needs a challenge of 32 bytes")
                }
                return Self.success(["proof": .string(Hexadecimal.text(handler.prove(challenge)))])
            case "path":
                guard let asked = PathRequest(request) else {
                    throw ControlFailure(code: "malformed", message: "path needs a relative path")
                }
                return Self.success(try handler.path(asked).json)
            case "trust":
                guard let asked = TrustRequest(request) else {
                    throw ControlFailure(code: "malformed", message: "trust needs a relative path, or all")
                }
                try handler.trust(asked)
                return Self.success(.null)
            default: throw ControlFailure(code: "unknownRequest", message: "no such request")
            }
        } catch {
            return Self.refusal(error)
        }
    }

    /// The secret follows its request as raw bytes and is read directly into locked memory. It is never part of the
    /// JSON.
    private func unlock(_ request: JSONValue, _ channel: Channel) throws(ControlFailure) -> UnlockOutcome {
        guard let kind = request["kind"]?.text, let form = Credential.Form(rawValue: kind),
            let length = request["length"]?.integer, length >= 1, length <= Int64(Credential.maximumLength)
        else {
            // Without the length, the secret's bytes would be read as a request.
            channel.shutDown()
            throw ControlFailure(code: "malformed", message: "unlock needs kind and length")
        }
        var secret: SecretBytes
        do throws(SodiumError) {
            secret = try SecretBytes(byteCount: Int(length))
        } catch {
            channel.shutDown()
            throw ControlFailure(code: "memory", message: "\(error)")
        }
        let deadline = monotonicNanoseconds() + Self.nanoseconds(limits.transfer)
        do throws(ChannelError) {
            try secret.withMutableBytes { bytes throws(ChannelError) in
                try channel.receive(into: &bytes, deadline: deadline)
            }
        } catch {
            channel.shutDown()
            throw ControlFailure(code: "incomplete", message: "the secret did not come in time")
        }
        return try handler.unlock(
            Credential(form, secret), when: UnlockCondition(request), by: channel.peer?.user)
    }

    private static func classRequest(_ request: JSONValue) throws(ControlFailure) -> ClassRequest {
        guard let text = request["path"]?.text, let path = Hexadecimal.decode(text.utf8), !path.isEmpty,
            !path.contains(0), path.first != UInt8(ascii: "/"),
            !path.split(separator: UInt8(ascii: "/")).contains(where: { $0.elementsEqual("..".utf8) }),
            let name = request["class"]?.text, let protectionClass = ProtectionClass(name: name),
            let mode = request["mode"]?.text.flatMap({ ClassRequest.Mode(rawValue: $0) })
        else { throw ControlFailure(code: "malformed", message: "class needs path, class and mode") }
        return ClassRequest(path: path, class: protectionClass, mode: mode)
    }
}

/// The reports of one request's progress.
private struct ProgressReports {
    private let channel: Channel
    private var last: UInt64 = 0

    init(_ channel: Channel) { self.channel = channel }

    /// Sends at most five reports a second, without waiting for a client that does not read them. False if it is gone.
    mutating func send(_ progress: ClassProgress) -> Bool {
        guard !channel.isAbandoned else { return false }
        let now = monotonicNanoseconds()
        guard now - last > 200_000_000 else { return true }
        last = now
        channel.sendAtOnce(["progress": ["done": .unsigned(progress.done), "total": .unsigned(progress.total)]])
        return true
    }
}

extension UnlockOutcome {
    var word: String {
        switch self {
        case .first: "first"
        case .again: "again"
        case .alreadyUnlocked: "alreadyUnlocked"
        }
    }

    init?(word: String?) {
        switch word {
        case "first": self = .first
        case "again": self = .again
        case "alreadyUnlocked": self = .alreadyUnlocked
        default: return nil
        }
    }
}
