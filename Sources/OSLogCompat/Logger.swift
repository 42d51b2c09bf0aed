// The names of Apple's unified log: `Logger`, `OSLog`, `os_log`. Lines go to standard error, from where a service's go to the journal.

internal import HostSystem

/// The importance of a message (Apple's `OSLogType`).
public struct OSLogType: RawRepresentable, Equatable, Sendable {
    /// Apple's number.
    public let rawValue: UInt8

    /// Makes a type from Apple's number.
    public init(rawValue: UInt8) { self.rawValue = rawValue }

    /// What is always of interest.
    public static let `default` = OSLogType(rawValue: 0)
    /// What helps without being needed.
    public static let info = OSLogType(rawValue: 1)
    /// What helps while a program is developed.
    public static let debug = OSLogType(rawValue: 2)
    /// An error of the program.
    public static let error = OSLogType(rawValue: 16)
    /// A fault of the program or of the system.
    public static let fault = OSLogType(rawValue: 17)

    /// The word in a line, and the priority of the journal (syslog(3)).
    fileprivate var form: (word: String, priority: Int) {
        switch self {
        case .info: ("info", 6)
        case .debug: ("debug", 7)
        case .error: ("error", 3)
        case .fault: ("fault", 2)
        default: ("default", 5)
        }
    }
}

/// A subsystem and a category of the log (Apple's `OSLog`).
public final class OSLog: Sendable {
    /// The log without a subsystem.
    public static let `default` = OSLog(name: "", isEnabled: true)
    /// A log that takes nothing.
    public static let disabled = OSLog(name: "", isEnabled: false)

    private let name: String
    private let isEnabled: Bool

    private init(name: String, isEnabled: Bool) { (self.name, self.isEnabled) = (name, isEnabled) }

    /// Makes a log.
    public convenience init(subsystem: String, category: String) {
        self.init(name: "[\(subsystem):\(category)] ", isEnabled: true)
    }

    /// Whether messages of a type are written: all are, except those to `disabled`.
    public func isEnabled(type: OSLogType) -> Bool { isEnabled }

    fileprivate func write(_ message: OSLogMessage, _ type: OSLogType) {
        guard isEnabled else { return }
        let output = Descriptor(taking: 2)
        // The journal takes the priority from the front of a line. A line break in a value must not begin another line.
        let start = Journal.isBehind(output) ? "<\(type.form.priority)>" : "\(type.form.word): "
        let text = String("\(start)\(name)\(message.text)".map { $0.isNewline ? " " : $0 }) + "\n"
        try? output.write(Array(text.utf8).span)
        _ = output.release()
    }
}

/// Writes messages to the log (Apple's `Logger`).
public struct Logger: Sendable {
    private let log: OSLog

    /// A logger without a subsystem.
    public init() { log = .default }

    /// A logger of a subsystem and a category.
    public init(subsystem: String, category: String) { log = OSLog(subsystem: subsystem, category: category) }

    /// A logger that writes to a log.
    public init(_ log: OSLog) { self.log = log }

    /// Writes a message of the type `default`.
    public func log(_ message: OSLogMessage) { log.write(message, .default) }
    /// Writes a message of a type.
    public func log(level: OSLogType, _ message: OSLogMessage) { log.write(message, level) }
    /// As `debug`.
    public func trace(_ message: OSLogMessage) { log.write(message, .debug) }
    /// Writes a message of the type `debug`.
    public func debug(_ message: OSLogMessage) { log.write(message, .debug) }
    /// Writes a message of the type `info`.
    public func info(_ message: OSLogMessage) { log.write(message, .info) }
    /// Writes a message of the type `default`.
    public func notice(_ message: OSLogMessage) { log.write(message, .default) }
    /// As `error`.
    public func warning(_ message: OSLogMessage) { log.write(message, .error) }
    /// Writes a message of the type `error`.
    public func error(_ message: OSLogMessage) { log.write(message, .error) }
    /// As `fault`.
    public func critical(_ message: OSLogMessage) { log.write(message, .fault) }
    /// Writes a message of the type `fault`.
    public func fault(_ message: OSLogMessage) { log.write(message, .fault) }
}

/// Writes a message to the log.
public func os_log(_ message: OSLogMessage) { OSLog.default.write(message, .default) }

/// Writes a message to a log.
public func os_log(_ type: OSLogType, log: OSLog = .default, _ message: OSLogMessage) { log.write(message, type) }

/// Writes a message to a log. A format with arguments does not compile: interpolate them.
public func os_log(_ message: OSLogMessage, log: OSLog, type: OSLogType = .default) { log.write(message, type) }
