// Example 9: a user as JSON, saved complete.

import FileProtection

struct User: Codable, Equatable {
    var name: String
    var token: String
}

func saveUser(_ user: User, to url: URL) throws {
    let data = try JSONEncoder().encode(user)
    try data.write(to: url, options: [.atomic, .completeFileProtection])
}

func loadUser(from url: URL) throws -> User {
    try JSONDecoder().decode(User.self, from: Data(contentsOf: url))
}
