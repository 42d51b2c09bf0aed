// A list that mostly has one element.

/// A list whose first element takes no allocation.
@usableFromInline package struct ShortList<Element>: RandomAccessCollection, MutableCollection {
    @usableFromInline var first: Element?
    @usableFromInline var others: [Element] = []

    /// Makes an empty list.
    @inlinable package init() {}

    @inlinable package var startIndex: Int { 0 }
    @inlinable package var endIndex: Int { first == nil ? 0 : others.count + 1 }

    @inlinable package subscript(position: Int) -> Element {
        get {
            if position > 0 { return others[position - 1] }
            guard let first else { preconditionFailure("no such element") }
            return first
        }
        set {
            precondition(indices.contains(position), "no such element")
            if position > 0 { others[position - 1] = newValue } else { first = newValue }
        }
    }

    /// Adds an element at the end.
    @inlinable package mutating func append(_ element: Element) {
        if first == nil { first = element } else { others.append(element) }
    }

    /// Removes an element; the later ones move up.
    @inlinable package mutating func remove(at position: Int) {
        precondition(indices.contains(position), "no such element")
        if position > 0 {
            others.remove(at: position - 1)
        } else {
            first = others.isEmpty ? nil : others.removeFirst()
        }
    }

    /// Runs `body` with each element. Unlike a loop over the list it takes no allocation.
    @inlinable package func forEach(_ body: (Element) -> Void) {
        if let first { body(first) }
        others.forEach(body)
    }

    /// Removes the first element that fits; nil if none does. Unlike a search for its position it takes no allocation.
    @discardableResult @inlinable
    package mutating func removeFirst(where fits: (Element) -> Bool) -> Element? {
        if let first, fits(first) {
            remove(at: 0)
            return first
        }
        for (position, element) in others.enumerated() where fits(element) { return others.remove(at: position) }
        return nil
    }

    /// Removes the last element.
    @inlinable package mutating func removeLast() { remove(at: count - 1) }
}

extension ShortList: Sendable where Element: Sendable {}
