// Example 18: the class is the application's default, from its entitlement (here: the volume's); the code names none.

import FileProtection

func saveInDefaultClass(_ data: Data, to url: URL) throws {
    try data.write(to: url)
}

func saveAtomicallyInDefaultClass(_ data: Data, to url: URL) throws {
    try data.write(to: url, options: .atomic)
}
