// The flags of chattr(1) and of file_setattr(2), as the kernel asks for them with IOCTL.

internal import BackingStore
internal import FuseBridge
internal import HostSystem
internal import KeyFiles
internal import ProtectedVolume
internal import VolumeFormat

extension VolumeFileSystem {
    /// The commands of ioctl_iflags(2) and ioctl_xfs_fsgetxattr(2). The kernel makes no other IOCTL of a program without asking.
    private enum FlagsCommand: UInt32 {
        case get = 0x8008_6601
        case set = 0x4008_6602
        case getExtended = 0x801C_581F
        case setExtended = 0x401C_5820
    }

    /// The bits of `fsx_xflags` and the flags that they mean.
    private static let extended: [(bit: UInt32, flag: InodeFlags)] = [
        (0x8, .immutable), (0x10, .appendOnly), (0x20, .synchronous), (0x40, .noAccessTime), (0x80, .noDump),
    ]
    /// Bytes of `struct fsxattr`. `fsx_xflags` comes first; what follows are sizes and a project, which are 0.
    private static let extendedLength = 28

    func ioctl(
        _ request: borrowing Request, node number: NodeID, command: UInt32, input: Span<UInt8>, room: Int,
        _ reply: consuming Reply
    ) {
        do throws(VolumeError) {
            let node = try node(number)
            var answer: [UInt8] = []
            switch FlagsCommand(rawValue: command) {
            case .get: answer = Self.bytes(try volume.flags(of: node).rawValue, count: 4)
            case .getExtended:
                let flags = try volume.flags(of: node)
                let bits = Self.extended.reduce(0) { $0 | (flags.contains($1.flag) ? $1.bit : 0) }
                answer = Self.bytes(bits, count: Self.extendedLength)
            case .set:
                guard input.count >= 4 else { throw .invalid }
                return setFlags(
                    InodeFlags(rawValue: input.littleEndian(at: 0, as: UInt32.self)), of: node, request, reply)
            case .setExtended:
                guard input.count == Self.extendedLength else { throw .invalid }
                let bits = input.littleEndian(at: 0, as: UInt32.self)
                let known = Self.extended.reduce(0) { $0 | $1.bit }
                guard bits & ~known == 0, (4..<Self.extendedLength).allSatisfy({ input[$0] == 0 }) else {
                    throw .notSupported
                }
                // A directory's `D` has no bit here and stays.
                let kept = try volume.flags(of: node).intersection(.synchronousDirectory)
                let flags = Self.extended.reduce(into: kept) { if bits & $1.bit != 0 { $0.insert($1.flag) } }
                return setFlags(flags, of: node, request, reply)
            case nil: throw .refused(.ENOTTY)
            }
            guard answer.count == room else { throw .invalid }
            reply.ioctl(answer.span)
        } catch {
            reply.error(refusal(error, number, request, "change the flags of"))
        }
    }

    /// What was written before a file becomes immutable is stored first, as on ext4 (`ext4_ioctl_setflags`): the store refuses
    /// it later.
    private func setFlags(_ flags: InodeFlags, of node: Node, _ request: borrowing Request, _ reply: consuming Reply) {
        let parked = ParkedReply(reply)
        let process = request.process
        let set: @Sendable () -> Void = { [self] in
            do throws(VolumeError) {
                try volume.setFlags(flags, of: node)
                // The change time has moved, which the kernel does not know. That of a file is its own.
                if node.kind == .directory {
                    calls.invalidateAttributes(node.number) { parked.take()?.ioctl([UInt8]().span) }
                } else {
                    parked.take()?.ioctl([UInt8]().span)
                }
            } catch {
                parked.take()?.error(refusal(error, node.number, of: process, "change the flags of"))
            }
        }
        let mayBeDirty = flags.contains(.immutable) && files.file(node.number)?.hasCachedWriter ?? false
        guard mayBeDirty, calls.canDropPages else { return set() }
        calls.dropPages(of: node.number, at: 0, count: 0, then: set)
    }

    private static func bytes(_ bits: UInt32, count: Int) -> [UInt8] {
        var result = [UInt8](repeating: 0, count: count)
        var bytes = result.mutableSpan
        bytes.storeLittleEndian(bits, at: 0)
        return result
    }
}
