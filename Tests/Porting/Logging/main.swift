// What applications write to the log, with another import: `porting-logging`, run by Tests/Mount.

import FileProtection
import OSLogCompat

struct Failure: Error {}

let logger = Logger(subsystem: "org.example.notes", category: "store")
let name = "diary.txt"
let url = URL(fileURLWithPath: "/secret")
logger.info("saved \(name) at \(url)")
logger.notice("saved \(name, privacy: .public), \(3) of \(7.5), \(true)")
logger.error("cannot save \(name, privacy: .private(mask: .hash)): \(Failure())")
logger.debug("flags \(255, format: .hex) |\(4, align: .right(columns: 3))|")
logger.debug("|\("a", align: .left(columns: 3), privacy: .public)|")
logger.log(level: .fault, "two\nlines")
logger.warning("number \(12, privacy: .private)")
os_log("plain")
os_log(.error, log: OSLog(subsystem: "org.example.notes", category: "old"), "code \(5)")
os_log("typed", log: .default, type: .info)
Logger(.disabled).fault("nothing")
