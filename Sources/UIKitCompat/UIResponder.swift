// The base class of application delegates.

public import FileProtection

/// The base class of an application's delegate (Apple's `UIResponder`). There are no windows and no events here, so it has
/// nothing but its initializer.
@MainActor open class UIResponder: NSObject {
    /// Makes a responder. A subclass with an initializer of its own without arguments writes `required init()` in place of
    /// `override init()`, because `@main` makes the delegate by its type.
    public required override init() { super.init() }
}
