// The names of the attributes that the volume has of its own.

internal import VolumeFormat

/// The volume's own attributes.
package enum OwnAttribute {
    case protection
    case state
    case inactiveState
    case flags
    /// A reserved name without a value.
    case reserved

    /// Nil for a name that is not the volume's own.
    package init?(_ name: [UInt8]) {
        let bytes = name.span
        if bytes.equals(AttributeName.protection) {
            self = .protection
        } else if bytes.equals(AttributeName.state) {
            self = .state
        } else if bytes.equals(AttributeName.inactiveState) {
            self = .inactiveState
        } else if bytes.equals(AttributeName.flags) {
            self = .flags
        } else if bytes.hasText(AttributeName.ownPrefix) {
            self = .reserved
        } else {
            return nil
        }
    }
}
