// How a TPM is named, in the options and in the configuration files.

/// A TPM's name: a TCTI and its configuration.
package enum TPM2Device {
    /// Whether it is one that the TPM helper may load. No other library is loaded than the two that are meant here.
    package static func isName(_ text: String) -> Bool {
        ["device:/", "swtpm:path=/"].contains(where: text.hasPrefix)
    }
}
