// How a volume is opened: the one value that the mount command, the volume and its contents share.

package import VolumeFormat

/// How a volume is opened: the one value that the words of `-o`, the volume and its files' contents share.
package struct VolumeOptions: Sendable, Equatable {
    /// Nothing is written below.
    package var isReadOnly = false
    /// Other machines write the same volume: records are read again, asides are left alone.
    package var isShared = false
    /// The class of new files in directories without a default.
    package var defaultClass = ProtectionClass.volumeDefault
    /// Crash damage is never tolerated.
    package var isStrict = false
    /// Crash damage is tolerated in every file.
    package var recovers = false
    /// A new file takes the strongest class of its name's family, and of the file that had its name a moment ago.
    package var keepsFamilyClass = true

    /// The defaults: exclusive, writable, class C.
    package init() {}
}
