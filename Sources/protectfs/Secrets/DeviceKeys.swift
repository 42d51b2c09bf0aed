// Finding the device key of a volume among those that lie on this machine: the one that opens its keybag.

import Glibc
import HostSystem
import Keybag
import SodiumKit
import VolumeFormat

/// The device key that opens a keybag, or why there is none.
struct FoundDeviceKey: ~Copyable {
    /// Nil where the volume has none, or it is not here.
    let key: SecretKey?
    /// Where it lies; nil without one.
    let path: HostPath?
    /// What is wrong with a key that lies here and does not open the keybag; it is set aside.
    let problem: CommandFailure?

    /// No device key.
    init(problem: CommandFailure? = nil) {
        key = nil
        path = nil
        self.problem = problem
    }

    /// A key.
    init(_ key: consuming SecretKey, _ path: HostPath) {
        self.key = consume key
        self.path = path
        problem = nil
    }

    /// The failure of a command that needs the device key; nil where it is here.
    func missing(_ what: String) -> CommandFailure? {
        guard path == nil else { return nil }
        return problem ?? .init(.authentication, "the device key is not here, \(what); give it with --device-key")
    }
}

extension VolumeAccess {
    /// What a command takes to find the device key.
    enum DeviceKeyChoice {
        /// Where device keys lie by default, if it is there.
        case usual
        /// In this file, which must be there.
        case file(HostPath)
        /// Not at all.
        case none

        /// By `--device-key FILE|none`.
        init(_ arguments: Arguments) {
            switch arguments.path("device-key") {
            case nil: self = .usual
            case HostPath("none"): self = .none
            // Absolute, as the daemon changes its directory.
            case .some(let path): self = .file((try? path.absolute()) ?? path)
            }
        }
    }

    /// The device key. Of those that lie in the usual place, one that does not open the keybag is set aside: it may be
    /// damaged, or belong to a copy of the volume, and a recovery code or portable passphrase needs none.
    func deviceKey(_ choice: DeviceKeyChoice) throws(CommandFailure) -> FoundDeviceKey {
        guard bag.hasDeviceKey else { return FoundDeviceKey() }
        switch choice {
        case .none: return FoundDeviceKey()
        case .file(let path):
            guard let key = try DeviceKeyFile.read(path, isOptional: false) else { return FoundDeviceKey() }
            return FoundDeviceKey(key, path)
        case .usual: return try usualDeviceKey()
        }
    }

    private func usualDeviceKey() throws(CommandFailure) -> FoundDeviceKey {
        let volume = bag.volumeID
        let own = try place().deviceKey(volume)
        var problem: CommandFailure?
        for path in [own] + DeviceKeyFile.all(of: volume).filter({ $0 != own }) {
            do throws(CommandFailure) {
                guard let key = try DeviceKeyFile.read(path, isOptional: true) else { continue }
                if let refusal = opens(with: key) {
                    problem = problem ?? .init(.authentication, "device key \(path): \(refusal.message)")
                } else {
                    return FoundDeviceKey(key, path)
                }
            } catch {
                problem = problem ?? error
            }
        }
        return FoundDeviceKey(problem: problem)
    }

    /// Where a new device key of this store is written by default: in place of the one that opens the keybag now, or of a file
    /// that is no key; never in place of another store's.
    func newDeviceKeyPath() throws(CommandFailure) -> HostPath {
        let (volume, place) = (bag.volumeID, try place())
        let own = place.deviceKey(volume)
        guard let key = try? DeviceKeyFile.read(own, isOptional: true), opens(with: key) != nil else { return own }
        let taken = StorePlace.numbers(of: volume, suffix: "key")
        return SystemPaths.data.appending("\(volume).\((taken.last ?? 1) + 1).key")
    }

    /// Nil for a key that is this keybag's, even if the keybag is damaged: that is found out by who uses it.
    private func opens(with key: borrowing SecretKey) -> CommandFailure? {
        do throws(KeybagError) {
            _ = try bag.open(deviceKey: key)
            return nil
        } catch .wrongDeviceKey {
            return Explain.keybag(.wrongDeviceKey, path)
        } catch {
            return nil
        }
    }
}

extension DeviceKeyFile {
    /// The files in the usual place that hold device keys of a volume: `UUID.key`, `UUID.N.key`, and what `recovery use` has
    /// replaced, which opens copies of before. In this order, and each kind by its name.
    static func all(of volume: VolumeID) -> [HostPath] {
        let names = (try? FileStatus.names(in: SystemPaths.data)) ?? []
        let start = Array("\(volume).".utf8)
        let found = names.filter { (name: HostPath) in
            let parts = name.bytes.dropFirst(start.count).split(separator: UInt8(ascii: ".")).map(Array.init)
            return name.bytes.starts(with: start) && parts.contains(Array("key".utf8))
                && parts.last != Array("erasing".utf8)
        }
        let isOld = { (name: HostPath) in !name.bytes.suffix(4).elementsEqual(".key".utf8) }
        return (found.filter { !isOld($0) } + found.filter(isOld)).map { SystemPaths.data.appending(bytes: $0.bytes) }
    }

    /// Moves a key that is to be replaced aside, under a name at which nothing lies: copies of the volume may need it.
    ///
    /// - Returns: its new name; nil where there was none.
    static func setAside(_ path: HostPath) throws(CommandFailure) -> HostPath? {
        for number in 1...1000 {
            let old = HostPath(bytes: path.bytes + Array((number == 1 ? ".old" : ".old.\(number)").utf8))
            do throws(SystemError) {
                try FileChange.rename(path, to: old, replacing: false)
                return old
            } catch {
                if error.code == ENOENT { return nil }
                guard error.code == EEXIST else { throw .init(.failure, "device key \(path): \(error.reason)") }
            }
        }
        throw .init(.failure, "device key \(path): a thousand old ones lie beside it; remove some")
    }
}
