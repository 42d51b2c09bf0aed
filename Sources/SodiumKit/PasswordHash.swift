// Argon2id, and the costs of it that this machine can bear.

internal import CSodium
internal import HostSystem

/// Parameters of Argon2id (RFC 9106) with one lane, as in libsodium.
package struct Argon2Parameters: Equatable, Sendable {
    /// Passes over the memory.
    package var passes: UInt32
    /// Memory in bytes.
    package var memory: UInt64

    /// Makes parameters without checking them.
    package init(passes: UInt32, memory: UInt64) {
        self.passes = passes
        self.memory = memory
    }

    /// The least cost of a new slot: 3 passes over 64 MiB.
    package static let floor = Argon2Parameters(passes: 3, memory: 64 << 20)

    /// Whether it is less than half the work of `other`. What is measured twice on one machine differs by less.
    package func isFarBelow(_ other: Argon2Parameters) -> Bool {
        Double(passes) * Double(memory) * 2 < Double(other.passes) * Double(other.memory)
    }

    /// Whether a slot with these parameters may be tried here: 1–16 passes, 8 MiB to `largestMemory`.
    package func isAcceptable(largestMemory: UInt64 = PasswordHash.largestMemory()) -> Bool {
        (1...16).contains(passes) && memory >= 8 << 20 && memory <= largestMemory && memory % 1024 == 0
    }
}

/// Argon2id by libsodium.
package enum PasswordHash {
    /// Bytes of a salt.
    package static let saltLength = 16

    /// Hashes a password with the time and memory of the parameters. The memory is given back to the kernel.
    ///
    /// - Throws: `passwordHashMemory` if the parameters are not acceptable here, or the memory is not available.
    package static func argon2id(
        _ password: Span<UInt8>, salt: Span<UInt8>, parameters: Argon2Parameters
    ) throws(SodiumError) -> SecretKey {
        guard parameters.isAcceptable() else { throw .passwordHashMemory }
        return try hash(password, salt: salt, parameters: parameters)
    }

    /// The same for parameters below a slot's minimum, for tests and calibration.
    static func hash(
        _ password: Span<UInt8>, salt: Span<UInt8>, parameters: Argon2Parameters
    ) throws(SodiumError) -> SecretKey {
        precondition(salt.count == saltLength)
        initializeSodium()
        let result = try SecretKey()
        let output = unsafe result.pointer
        let status = unsafe password.withUnsafeBytes { password in
            unsafe salt.withUnsafeBytes { salt in
                unsafe password.bytes.withMemoryRebound(to: CChar.self, capacity: password.count) { start in
                    unsafe crypto_pwhash(
                        output, UInt64(SecretKey.byteCount), start, UInt64(password.count), salt.bytes,
                        UInt64(parameters.passes), Int(parameters.memory), crypto_pwhash_alg_argon2id13())
                }
            }
        }
        // Argon2 leaves its first hash of the password on the stack.
        wipeStackBelow()
        guard status == 0 else { throw .passwordHashMemory }
        return result
    }

    /// The most memory that a slot may ask for here, in bytes: the smaller of 4 GiB and half of the memory that the machine and
    /// the cgroup have left.
    package static func largestMemory() -> UInt64 {
        min(4 << 30, AvailableMemory.bytes() / 2)
    }

    /// Parameters for a new slot that take about `seconds` of a processor of this machine. They are never below the minimum and never use more
    /// memory than 1 GiB or `largestMemory`.
    ///
    /// - Throws: `passwordHashMemory` if not even the minimum's memory is available.
    package static func calibrated(seconds: Double = 1) throws(SodiumError) -> Argon2Parameters {
        let largest = min(largestMemory(), 1 << 30)
        guard largest >= Argon2Parameters.floor.memory else { throw .passwordHashMemory }
        let salt = InlineArray<16, UInt8>(repeating: 0)
        // Not the time of the clock: a busy machine would give the volume a cheap hash for good.
        let start = threadNanoseconds()
        _ = try hash(
            salt.span, salt: salt.span, parameters: Argon2Parameters(passes: 1, memory: 64 << 20))
        let elapsed = max(threadNanoseconds() &- start, 1_000_000)
        // Passes over 64 MiB that the time allows. More memory comes first, at three passes.
        let units = seconds * 1_000_000_000 / Double(elapsed)
        let wanted = UInt64(min(max(units / 3, 1), 64)) * (64 << 20)
        let memory = min(wanted, largest / (1 << 20) * (1 << 20))
        let passes = min(max(units * Double(64 << 20) / Double(memory), 3), 16)
        return Argon2Parameters(passes: UInt32(passes), memory: memory)
    }
}
