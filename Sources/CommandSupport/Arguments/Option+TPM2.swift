// The options of a TPM.

extension Option {
    /// The TPM through the kernel's resource manager.
    package static let usualTPM2 = "device:/dev/tpmrm0"
    /// Opens a volume with the TPM.
    package static let tpm2 = Option(
        "tpm2", mountWord: .unlocking, credential: .opening,
        help: "open the volume with the TPM of this machine, in place of a passphrase; ask for its PIN if it has one")
    /// What comes with `--tpm2`.
    package static let tpm2Details = [
        Option(
            "tpm2-pin-file", value: .file, mountWord: .plain, credential: .opening,
            help: "with --tpm2: read the PIN from the first line of FILE; - is standard input"),
        Option(
            "tpm2-pin-command", value: .command, isPrivate: true, mountWord: .plain, credential: .opening,
            help: "with --tpm2: run CMD and read the PIN from the first line of its output"),
        Option(
            "tpm2-device", value: Value(name: "TCTI", kind: .text), standard: usualTPM2, mountWord: .plain,
            credential: .opening,
            help: "with --tpm2: the TPM, as device:PATH, or as swtpm:path=SOCKET for a software TPM"),
    ]
}
