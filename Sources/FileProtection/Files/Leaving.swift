// What a program may copy or move out of its mount, where the class of a file does not follow it.

import CLibrary
import HostSystem
import VolumeFormat

/// A copy off the mount is refused for a file whose class was chosen, passes with a warning if its directory gave it a class
/// stronger than the volume's default, and else passes.
enum Leaving {
    private enum Bond: Int {
        /// The class is one that nobody chose.
        case usual, inherited, chosen
    }

    /// Asks the policy about an item, of a tree about its files, that is to be copied to a path on no protected mount.
    ///
    /// - Throws: `FileProtectionError.notProtected` if a class was chosen and the policy requires it.
    static func ask(_ source: String, to target: String) throws {
        let root = ProtectedMount.holdingEntry(source)?.path
        let given = root.flatMap { try? ProtectionAttribute.get($0) }?.protectionClass
        let found: Bond
        do throws(SystemError) { found = try bond(HostPath(source), usual: given ?? .volumeDefault) } catch {
            throw CocoaError.of(error.code, .read, source)
        }
        switch found {
        case .chosen: try FileProtection.refuseOrGoOn(target)
        case .inherited: FileProtection.warn(of: target)
        case .usual: break
        }
    }

    /// The strongest bond in a tree. Links are copied as text.
    private static func bond(_ path: HostPath, usual: ProtectionClass) throws(SystemError) -> Bond {
        var strongest = Bond.usual
        switch try FileStatus.read(path).st_mode & S_IFMT {
        case S_IFREG:
            let flags = try ExtendedAttribute.read(AttributeName.flags.description, of: path, isProtected: true) ?? []
            if flags.split(separator: UInt8(ascii: ",")).contains(where: { $0.elementsEqual("explicit".utf8) }) {
                return .chosen
            }
            let name = try ExtendedAttribute.read(AttributeName.protection.description, of: path) ?? []
            let own = ProtectionClass(name: String(decoding: name, as: UTF8.self))
            if own?.isStronger(than: usual) == true { strongest = .inherited }
        case S_IFDIR:
            for name in try FileStatus.names(in: path) where strongest != .chosen {
                let found = try bond(path.appending(bytes: name.bytes), usual: usual)
                if found.rawValue > strongest.rawValue { strongest = found }
            }
        default: break
        }
        return strongest
    }
}
