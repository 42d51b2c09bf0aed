// A whole volume: an input is a program of operations, crashes, locks, damage and checks. No trap, and no plaintext of another file.

import VolumeFormat

private let longest = 64

enum VolumeTarget: FuzzTarget {
    static func fuzz(_ bytes: Span<UInt8>) {
        var program = Program(bytes)
        let driver = VolumeDriver()
        for _ in 0..<longest where !program.isAtEnd { step(driver, &program) }
        driver.readAll()
        driver.remount()
        driver.readAll()
    }

    static func seeds() -> [[UInt8]] {
        let make: [UInt8] = [0, 0, 2, 0, 0, 0, 20, 0, 0, 1, 2, 1, 10, 0, 31, 0, 0, 8, 2, 8, 0, 0, 2, 0]
        let all: [UInt8] = [12, 0, 0, 9, 13, 1, 14, 2, 10, 1, 0, 7, 1, 2, 8, 2, 3, 6, 2, 16, 0, 32, 0]
        var result = [
            make + [16], make + all + [17, 16, 23, 0], make + [11, 0, 18, 3, 7, 16, 23, 3], make + [19, 16, 19, 16],
        ]
        for how in 0..<40 as Range<UInt8> {
            // Every way of damaging a file, a link, an entry; then use, check with repair, and use again.
            result.append(
                make + all + [20, 2, 0, 0, 0, 0, 100, 21, 0, how, 0, how &* 7, how &* 6, 0, 33, 3, 16, 23, how, 16, 17])
        }
        return result
    }
}

private func step(_ driver: VolumeDriver, _ program: inout Program) {
    let operation = program.byte()
    func slot() -> Int { program.byte() % VolumeDriver.slots }
    switch operation % 24 {
    case 0, 1: driver.create(slot())
    case 2, 3, 4: driver.write(slot(), at: program.word() % 20_000, count: program.word() % 9000)
    case 5: driver.truncate(slot(), to: program.word() % 30_000)
    case 6: driver.punch(slot(), at: program.word() % 20_000, count: program.word() % 20_000)
    case 7: driver.rename(slot(), to: slot())
    case 8: driver.link(slot(), slot())
    case 9: driver.unlink(slot())
    case 10: driver.setClass(slot(), program.byte())
    case 11: driver.synchronize(slot())
    case 12: driver.attribute(slot(), count: program.word())
    case 13: driver.symlink(slot())
    case 14: driver.directory(slot(), make: operation < 128)
    case 15: driver.read(slot())
    case 16: driver.readAll()
    case 17: driver.remount()
    case 18: driver.crash(program.word())
    case 19: driver.lockOrUnlock()
    case 20: driver.remember()
    case 21, 22: driver.damage(&program)
    default: driver.checkVolume(program.byte())
    }
}
