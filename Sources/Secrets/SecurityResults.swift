// The result codes, with their names and numbers of Security.framework.

/// A result code; 0 is success.
public typealias OSStatus = Int32

/// Done.
public let errSecSuccess: OSStatus = 0
/// Asked for what this library does not do.
public let errSecUnimplemented: OSStatus = -4
/// The file system below is full.
public let errSecDiskFull: OSStatus = -34
/// A failure of input or output; the item may be damaged.
public let errSecIO: OSStatus = -36
/// A parameter is missing or makes no sense.
public let errSecParam: OSStatus = -50
/// No permission to write, or a read-only mount.
public let errSecWrPerm: OSStatus = -61
/// No memory, or no locked memory.
public let errSecAllocate: OSStatus = -108
/// No protected mount to keep items in.
public let errSecNotAvailable: OSStatus = -25291
/// There is an item with the same identifying attributes.
public let errSecDuplicateItem: OSStatus = -25299
/// There is no such item.
public let errSecItemNotFound: OSStatus = -25300
/// A secret is longer than 64 KiB, or the attributes are more than 3 KiB.
public let errSecDataTooLarge: OSStatus = -25302
/// A key in the dictionary is not known.
public let errSecNoSuchAttr: OSStatus = -25303
/// The item's class is closed in the volume's present state.
public let errSecInteractionNotAllowed: OSStatus = -25308
/// The item's attributes cannot be understood.
public let errSecDecode: OSStatus = -26275

/// What a result code means, in one sentence; nil for a number that is none of them.
public func SecCopyErrorMessageString(_ status: OSStatus, _ reserved: UnsafeMutableRawPointer?) -> CFString? {
    switch status {
    case errSecSuccess: "No error."
    case errSecUnimplemented: "This function or key is not implemented."
    case errSecDiskFull: "The file system below the volume is full."
    case errSecIO: "Input or output failed; the item may be damaged."
    case errSecParam: "A parameter is missing or not valid."
    case errSecWrPerm: "The mount cannot be written."
    case errSecAllocate: "There is no memory, or the limit of locked memory is too low."
    case errSecNotAvailable: "There is no protected mount to keep items in, or it is not known which."
    case errSecDuplicateItem: "The item exists already."
    case errSecItemNotFound: "There is no such item."
    case errSecDataTooLarge: "The secret or its attributes are too large."
    case errSecNoSuchAttr: "A key in the dictionary is not known."
    case errSecInteractionNotAllowed: "The item's class is closed while the volume is locked."
    case errSecDecode: "The item's attributes cannot be understood."
    default: nil
    }
}
