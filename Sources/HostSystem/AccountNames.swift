// The names of users and groups, for messages.

import CLibrary

/// Names from the system's databases. A number without a name is shown as such.
package enum AccountNames {
    /// The name of a user.
    package static func user(_ number: UInt32) -> String {
        guard let entry = unsafe getpwuid(number), let name = unsafe entry.pointee.pw_name else {
            return "user \(number)"
        }
        return unsafe String(cString: name)
    }

    /// The name of a group.
    package static func group(_ number: UInt32) -> String {
        guard let entry = unsafe getgrgid(number), let name = unsafe entry.pointee.gr_name else { return "\(number)" }
        return unsafe String(cString: name)
    }
}
