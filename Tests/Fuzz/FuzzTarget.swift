// What each fuzz target gives, the list of them, and what they share.

/// A parser of untrusted bytes, or a place that uses one.
protocol FuzzTarget: SendableMetatype {
    /// Takes one input. It ends the process if the input shows a fault.
    static func fuzz(_ bytes: Span<UInt8>)
    /// Inputs to begin with.
    static func seeds() -> [[UInt8]]
}

/// All targets by name. Tests/Fuzz/regressions has a folder of inputs that failed once for some of them.
let targets: [(name: String, target: any FuzzTarget.Type)] = [
    ("attribute", AttributeTarget.self), ("block", BlockTarget.self), ("companion", CompanionTarget.self),
    ("config", ConfigTarget.self), ("header", HeaderTarget.self), ("keybag", KeybagTarget.self),
    ("late", LateTarget.self), ("name", NameTarget.self), ("options", OptionsTarget.self),
    ("record", RecordTarget.self), ("seen", SeenTarget.self), ("socket", SocketTarget.self),
    ("state", StateTarget.self), ("symlink", SymlinkTarget.self), ("text", TextTarget.self),
    ("value", ValueTarget.self), ("volume", VolumeTarget.self),
]

/// Ends the process, so that libFuzzer keeps the input, unless the condition holds.
func check(_ condition: Bool, _ message: StaticString) {
    if !condition { fatalError("\(message)") }
}

/// Small numbers for seeds, always the same.
func pattern(_ count: Int, from first: UInt8 = 1) -> [UInt8] {
    (0..<count).map { first &+ UInt8(truncatingIfNeeded: $0) }
}

/// Set once, before the first input.
nonisolated(unsafe) var chosen: any FuzzTarget.Type = TextTarget.self

/// libFuzzer's call for one input. Its own main function, which is not used, wants it by this name.
@c(LLVMFuzzerTestOneInput)
public func fuzzOneInput(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    // libFuzzer's buffer lives for as long as the call.
    if let start = unsafe start { unsafe chosen.fuzz(Span(_unsafeStart: start, count: count)) }
    return 0
}
