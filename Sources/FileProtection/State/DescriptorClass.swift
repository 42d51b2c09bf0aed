// Classes by descriptor, with Darwin's names.

import CLibrary
import VolumeFormat

/// A command of fcntl(2) about the class of an open file.
public struct ProtectionClassCommand: Sendable, Equatable {
    fileprivate let sets: Bool
}

/// Asks for the class of an open file, as its number.
public let F_GETPROTECTIONCLASS = ProtectionClassCommand(sets: false)
/// Sets the class of an open file, by its number.
public let F_SETPROTECTIONCLASS = ProtectionClassCommand(sets: true)

/// The number of the class of an open file on a protected mount: 1 complete, 2 unless open, 3 until first user authentication,
/// 4 none, 7 when user inactive (`fcntl(descriptor, F_GETPROTECTIONCLASS)`).
///
/// - Returns: -1 with errno if there is none: ENOTSUP outside a protected mount.
public func fcntl(_ descriptor: Int32, _ command: ProtectionClassCommand) -> Int32 {
    guard !command.sets else { return DescriptorClass.refuse(EINVAL) }
    do throws(ProtectionSystemError) {
        guard let type = try ProtectionAttribute.get(descriptor), let found = type.protectionClass else {
            return DescriptorClass.refuse(ENOTSUP)
        }
        return DescriptorClass.number(of: found)
    } catch {
        return DescriptorClass.refuse(error.code)
    }
}

/// Sets the class of an open file on a protected mount (`fcntl(descriptor, F_SETPROTECTIONCLASS, number)`).
///
/// - Returns: 0, or -1 with errno: EINVAL for another number, EACCES if the old or the new class is closed, ENOTSUP outside a
///   protected mount.
public func fcntl(_ descriptor: Int32, _ command: ProtectionClassCommand, _ number: Int32) -> Int32 {
    guard command.sets, let type = DescriptorClass.named(number) else { return DescriptorClass.refuse(EINVAL) }
    do throws(ProtectionSystemError) {
        guard try ProtectionAttribute.get(descriptor) != nil else { return DescriptorClass.refuse(ENOTSUP) }
        try ProtectionAttribute.set(type, descriptor)
        return 0
    } catch {
        return DescriptorClass.refuse(error.code)
    }
}

/// The numbers of classes, and the way in which calls with Darwin's names fail.
enum DescriptorClass {
    static func refuse(_ code: Int32) -> Int32 {
        errno = code
        return -1
    }

    static func number(of type: ProtectionClass) -> Int32 {
        switch type {
        case .complete: 1
        case .completeUnlessOpen: 2
        case .completeUntilFirstUserAuthentication: 3
        case .none: 4
        case .completeWhenUserInactive: 7
        }
    }

    static func named(_ number: Int32) -> FileProtectionType? {
        switch number {
        case 1: .complete
        case 2: .completeUnlessOpen
        case 3: .completeUntilFirstUserAuthentication
        case 4: FileProtectionType.none
        case 7: .completeWhenUserInactive
        default: nil
        }
    }
}
