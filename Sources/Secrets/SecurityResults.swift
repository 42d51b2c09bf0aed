// The result codes, with the names and numbers of Security.framework.

// protectfs: plain Foundation: values in memory, no files.
public import Foundation

/// A result code; 0 is success.
public typealias OSStatus = Int32

/// Success, with the name that code of other frameworks uses.
public let noErr: OSStatus = 0
/// The call succeeded.
public let errSecSuccess: OSStatus = 0
/// The library does not support the function or key.
public let errSecUnimplemented: OSStatus = -4
/// The file system below the volume is full.
public let errSecDiskFull: OSStatus = -34
/// Input or output failed. The item may be damaged.
public let errSecIO: OSStatus = -36
/// A file is already open for writing.
public let errSecOpWr: OSStatus = -49
/// A parameter is missing or not valid.
public let errSecParam: OSStatus = -50
/// The program has no permission to write, or the mount is read-only.
public let errSecWrPerm: OSStatus = -61
/// Memory or locked memory is short.
public let errSecAllocate: OSStatus = -108
/// A person refused.
public let errSecUserCanceled: OSStatus = -128
/// The request is not valid.
public let errSecBadReq: OSStatus = -909
/// The library failed.
public let errSecInternalComponent: OSStatus = -2070
/// No protected mount can be chosen.
public let errSecNotAvailable: OSStatus = -25291
/// The items cannot be changed.
public let errSecReadOnly: OSStatus = -25292
/// A password is wrong.
public let errSecAuthFailed: OSStatus = -25293
/// There is no such keychain.
public let errSecNoSuchKeychain: OSStatus = -25294
/// The keychain is not valid.
public let errSecInvalidKeychain: OSStatus = -25295
/// The keychain exists already.
public let errSecDuplicateKeychain: OSStatus = -25296
/// The callback is registered already.
public let errSecDuplicateCallback: OSStatus = -25297
/// The callback is not valid.
public let errSecInvalidCallback: OSStatus = -25298
/// An item with the same identifying attributes exists.
public let errSecDuplicateItem: OSStatus = -25299
/// No item matches.
public let errSecItemNotFound: OSStatus = -25300
/// The result has no room.
public let errSecBufferTooSmall: OSStatus = -25301
/// The secret is longer than 64 KiB, or the attributes need more than 3 KiB.
public let errSecDataTooLarge: OSStatus = -25302
/// The dictionary has an unknown key, or one that items of this kind do not have.
public let errSecNoSuchAttr: OSStatus = -25303
/// A reference to an item is not valid.
public let errSecInvalidItemRef: OSStatus = -25304
/// A reference to a search is not valid.
public let errSecInvalidSearchRef: OSStatus = -25305
/// There is no such kind of item.
public let errSecNoSuchClass: OSStatus = -25306
/// There is no default keychain.
public let errSecNoDefaultKeychain: OSStatus = -25307
/// A value in a dictionary is not valid. The library gives `errSecParam`.
public let errSecInvalidValue: OSStatus = -67674
/// The item's class is closed in the volume's current state.
public let errSecInteractionNotAllowed: OSStatus = -25308
/// An attribute cannot be changed.
public let errSecReadOnlyAttr: OSStatus = -25309
/// The item is of another version.
public let errSecWrongSecVersion: OSStatus = -25310
/// The size of the key is not allowed.
public let errSecKeySizeNotAllowed: OSStatus = -25311
/// There is no storage.
public let errSecNoStorageModule: OSStatus = -25312
/// Certificates are not supported.
public let errSecNoCertificateModule: OSStatus = -25313
/// Policies are not supported.
public let errSecNoPolicyModule: OSStatus = -25314
/// A person is needed.
public let errSecInteractionRequired: OSStatus = -25315
/// The data is not there.
public let errSecDataNotAvailable: OSStatus = -25316
/// The data cannot be changed.
public let errSecDataNotModifiable: OSStatus = -25317
/// A chain of certificates cannot be made.
public let errSecCreateChainFailed: OSStatus = -25318
/// The item's attributes, or a certificate, cannot be decoded.
public let errSecDecode: OSStatus = -26275
/// An entitlement is missing. The library never gives it.
public let errSecMissingEntitlement: OSStatus = -34018

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
    case errSecOpWr: "The file is already open for writing."
    case errSecParam: "A parameter is missing or not valid."
    case errSecWrPerm: "The mount cannot be written."
    case errSecAllocate: "There is no memory, or the limit of locked memory is too low."
    case errSecUserCanceled: "The user refused."
    case errSecBadReq: "The request is not valid."
    case errSecInternalComponent: "The library failed."
    case errSecNotAvailable: "No protected mount can be chosen: there is none, or there are several."
    case errSecReadOnly: "The items cannot be changed."
    case errSecAuthFailed: "The password is wrong."
    case errSecNoSuchKeychain: "There is no such keychain."
    case errSecInvalidKeychain: "The keychain is not valid."
    case errSecDuplicateKeychain: "The keychain exists already."
    case errSecDuplicateCallback: "The callback is registered already."
    case errSecInvalidCallback: "The callback is not valid."
    case errSecDuplicateItem: "The item exists already."
    case errSecItemNotFound: "There is no such item."
    case errSecBufferTooSmall: "The result has no room."
    case errSecDataTooLarge: "The secret or its attributes are too large."
    case errSecNoSuchAttr: "A key in the dictionary is not known, or items of this kind do not have it."
    case errSecInvalidItemRef: "The reference to the item is not valid."
    case errSecInvalidSearchRef: "The reference to the search is not valid."
    case errSecNoSuchClass: "There is no such kind of item."
    case errSecNoDefaultKeychain: "There is no default keychain."
    case errSecInvalidValue: "A value is not valid."
    case errSecInteractionNotAllowed: "The item's class is closed while the volume is locked."
    case errSecReadOnlyAttr: "The attribute cannot be changed."
    case errSecWrongSecVersion: "The item is of another version."
    case errSecKeySizeNotAllowed: "The size of the key is not allowed."
    case errSecNoStorageModule: "There is no storage."
    case errSecNoCertificateModule: "Certificates are not supported."
    case errSecNoPolicyModule: "Policies are not supported."
    case errSecInteractionRequired: "A person is needed."
    case errSecDataNotAvailable: "The data is not there."
    case errSecDataNotModifiable: "The data cannot be changed."
    case errSecCreateChainFailed: "The chain of certificates cannot be made."
    case errSecDecode: "The data cannot be understood."
    case errSecMissingEntitlement: "An entitlement is missing."
    default: nil
    }
}
