// The result codes, with the names and numbers of Security.framework.

/// A result code; 0 is success.
public typealias OSStatus = Int32

/// The call succeeded.
public let errSecSuccess: OSStatus = 0
/// The library does not support the function or key.
public let errSecUnimplemented: OSStatus = -4
/// The file system below the volume is full.
public let errSecDiskFull: OSStatus = -34
/// Input or output failed. The item may be damaged.
public let errSecIO: OSStatus = -36
/// A parameter is missing or not valid.
public let errSecParam: OSStatus = -50
/// The program has no permission to write, or the mount is read-only.
public let errSecWrPerm: OSStatus = -61
/// Memory or locked memory is short.
public let errSecAllocate: OSStatus = -108
/// No protected mount can be chosen.
public let errSecNotAvailable: OSStatus = -25291
/// An item with the same identifying attributes exists.
public let errSecDuplicateItem: OSStatus = -25299
/// No item matches.
public let errSecItemNotFound: OSStatus = -25300
/// The secret is longer than 64 KiB, or the attributes need more than 3 KiB.
public let errSecDataTooLarge: OSStatus = -25302
/// The dictionary has an unknown key.
public let errSecNoSuchAttr: OSStatus = -25303
/// The item's class is closed in the volume's current state.
public let errSecInteractionNotAllowed: OSStatus = -25308
/// The item's attributes cannot be decoded.
public let errSecDecode: OSStatus = -26275

/// The meaning of a result code in one sentence; nil for an unknown code (Apple's `SecCopyErrorMessageString`).
///
/// - Parameters:
///   - status: the result code.
///   - reserved: not used; pass nil.
public func SecCopyErrorMessageString(_ status: OSStatus, _ reserved: UnsafeMutableRawPointer?) -> CFString? {
    switch status {
    case errSecSuccess: "No error."
    case errSecUnimplemented: "This function or key is not implemented."
    case errSecDiskFull: "The file system below the volume is full."
    case errSecIO: "Input or output failed; the item may be damaged."
    case errSecParam: "A parameter is missing or not valid."
    case errSecWrPerm: "The mount cannot be written."
    case errSecAllocate: "There is no memory, or the limit of locked memory is too low."
    case errSecNotAvailable: "No protected mount can be chosen: there is none, or there are several."
    case errSecDuplicateItem: "The item exists already."
    case errSecItemNotFound: "There is no such item."
    case errSecDataTooLarge: "The secret or its attributes are too large."
    case errSecNoSuchAttr: "A key in the dictionary is not known."
    case errSecInteractionNotAllowed: "The item's class is closed while the volume is locked."
    case errSecDecode: "The item's attributes cannot be understood."
    default: nil
    }
}
