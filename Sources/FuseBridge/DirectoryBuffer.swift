// Directory entries in the kernel's form, packed into the worker's buffer.
// libfuse and pthread give the pointers unwrapped here in every case.
// swift-format-ignore-file: NeverForceUnwrap

internal import CFuse3
internal import CLibrary

/// A page of a directory for READDIR or READDIRPLUS, filled one entry at a time. Valid only during its request.
@safe package struct DirectoryBuffer: ~Copyable {
    private let request: fuse_req_t
    let base: UnsafeMutableRawPointer
    private let capacity: Int
    private(set) var used = 0
    /// Whether entries carry attributes and count as lookups.
    package let isPlus: Bool

    init(_ request: fuse_req_t, _ base: UnsafeMutableRawPointer, capacity: Int, isPlus: Bool) {
        unsafe self.request = request
        unsafe self.base = base
        self.capacity = capacity
        self.isPlus = isPlus
    }

    /// Whether an entry with a name of `nameLength` bytes still fits. Ask this before looking the entry up.
    package func hasRoom(nameLength: Int) -> Bool {
        // FUSE_NAME_OFFSET_DIRENTPLUS and FUSE_NAME_OFFSET of the kernel's fuse.h.
        let size = ((isPlus ? 152 : 24) + nameLength + 7) & ~7
        return nameLength <= 1024 && used + size <= capacity
    }

    /// Adds an entry. `next` is the offset at which reading continues after it. For a node of 0, only the attributes' inode
    /// number and type are used, and no lookup is counted.
    /// - Precondition: `hasRoom(nameLength:)`, and no NUL in the name.
    package mutating func append(name: [UInt8], entry: Entry, next: Int64) {
        let request = unsafe self.request
        let position = unsafe base.advanced(by: used).assumingMemoryBound(to: CChar.self)
        let room = capacity - used
        let isPlus = self.isPlus
        let added = unsafe withUnsafeTemporaryAllocation(byteCount: name.count + 1, alignment: 1) { text in
            unsafe name.withUnsafeBytes { unsafe text.copyMemory(from: $0) }
            unsafe text[name.count] = 0
            let start = unsafe text.baseAddress!.assumingMemoryBound(to: CChar.self)
            if isPlus {
                var parameters = entry.parameters
                return unsafe fuse_add_direntry_plus(request, position, room, start, &parameters, off_t(next))
            }
            var stat = entry.attributes.stat
            return unsafe fuse_add_direntry(request, position, room, start, &stat, off_t(next))
        }
        // If the entry does not fit, libfuse reports the size needed and writes nothing.
        if added <= room { used += added }
    }
}
