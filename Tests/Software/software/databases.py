"""Databases: SQLite with several processes, PostgreSQL with a crash of its own."""

import contextlib
import glob
import os
import pwd
import signal
import socket
import sqlite3
import subprocess

from harness import PATIENCE, Skip, run, wait_until

from .sides import said

PROCESSES = 4
JOURNALS = ("delete", "truncate", "persist", "memory", "wal", "off")


def transactions(path, journal, worker, rounds):
    """What one process does: each transaction reads a counter, adds to it, and adds a row."""
    database = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)
    database.execute(f"pragma journal_mode={journal}")
    for number in range(rounds):
        database.execute("begin immediate")
        (count,) = database.execute("select count from counter").fetchone()
        database.execute("insert into rows values (?, ?, ?)", (worker, number, b"x" * (1 + 997 * number % 9000)))
        database.execute("update counter set count = ?", (count + 1,))
        database.execute("rollback" if number % 8 == 7 and journal != "off" else "commit")
    database.close()


def sqlite(side, rounds=40):
    """Four processes write one database at once, in each journal mode."""
    for journal in JOURNALS:
        path = side.directory(journal) + "/database"
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
            yield f"{journal}: mode", database.execute(f"pragma journal_mode={journal}").fetchone()[0]
            database.execute("create table rows (worker, number, value)")
            database.execute("create table counter (count)")
            database.execute("insert into counter values (0)")
        children = []
        for worker in range(PROCESSES):
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    transactions(path, journal, worker, rounds)
                    status = 0
                finally:
                    os._exit(status)
            children.append(child)
        yield f"{journal}: exit codes", [os.waitpid(child, 0)[1] for child in children]
        with contextlib.closing(sqlite3.connect(path)) as database:
            one = lambda words: database.execute(words).fetchall()
            yield f"{journal}: counter", one("select count from counter")
            yield f"{journal}: rows", one("select worker, count(*), sum(length(value)) from rows group by worker order by worker")
            yield f"{journal}: check", one("pragma integrity_check")
            database.execute("delete from rows where number % 3 = 0")
            database.commit()
            database.execute("vacuum")
            yield f"{journal}: check after vacuum", one("pragma integrity_check")
        yield f"{journal}: files", sorted(os.listdir(os.path.dirname(path)))


class Cluster:
    """A PostgreSQL cluster below a side, run by an ordinary user."""

    def __init__(self, side):
        found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"))
        if not found:
            raise Skip("PostgreSQL is missing: install postgresql")
        self.programs = os.path.dirname(found[-1])
        self.main = None
        self.become = []
        user = os.geteuid()
        if user == 0:
            user = pwd.getpwnam("postgres").pw_uid
            self.become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        self.data = side.directory("data", user) + "/cluster"
        self.sockets, self.log = side.scratch, os.path.join(side.scratch, "log")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]

    def words(self, program, *words):
        return [*self.become, os.path.join(self.programs, program), *words]

    def call(self, program, *words, **more):
        return said(*self.words(program, *words), cwd="/", timeout=600, **more)

    def client(self, program, *words, **more):
        return self.call(program, "-h", self.sockets, "-p", str(self.port), "-U", "postgres", *words, **more)

    def ask(self, query):
        return self.client("psql", "-XAtqc", query, "postgres")

    def start(self):
        """Whether the server answers. It is our child, so that nothing is left of it when it has been killed."""
        with open(self.log, "ab") as log:
            self.main = subprocess.Popen(self.words("postgres", "-D", self.data, "-p", str(self.port), "-k", self.sockets,
                                                    "-c", "listen_addresses="), cwd="/", stdout=log, stderr=log)
        wait_until(lambda: self.main.poll() is not None or self.client("pg_isready")[0] == 0, what="an answer of the server")
        return self.main.poll() is None

    def stop(self):
        """Asks for a fast shutdown; its exit code."""
        self.main.send_signal(signal.SIGINT)
        return self.main.wait(PATIENCE)

    def kill(self):
        """Ends all processes of the server at once."""
        children = [int(pid) for pid in run("ps", "-o", "pid=", "--ppid", str(self.main.pid)).stdout.split()]
        for pid in [self.main.pid, *children]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.main.wait()
        wait_until(lambda: not any(os.path.exists(f"/proc/{pid}/exe") for pid in children), what="the server's end")

    def balances(self):
        """Whether all sums of pgbench's tables agree, as every transaction leaves them."""
        return self.ask("select (select sum(abalance) from pgbench_accounts) = (select coalesce(sum(delta), 0) from pgbench_history)"
                        " and (select sum(bbalance) from pgbench_branches) = (select sum(tbalance) from pgbench_tellers)"
                        " and (select sum(abalance) from pgbench_accounts) = (select sum(bbalance) from pgbench_branches)")

    def committed(self, count):
        """Commits rows one after the other in a client, kills the server in the middle; the last row that was acknowledged."""
        client = subprocess.Popen(self.words("psql", "-h", self.sockets, "-p", str(self.port), "-U", "postgres", "-XAtq", "postgres"),
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd="/")
        for number in range(1, count + 1):
            client.stdin.write(f"insert into kept values ({number}) returning number;\n")
        client.stdin.flush()
        last = 0
        while last < count // 2:
            last = int(client.stdout.readline())
        self.kill()
        for line in client.communicate()[0].split():
            last = int(line)
        return last


def postgresql(side):
    """initdb, pgbench, kill -9 of the server under load, recovery, amcheck, checksums."""
    server = Cluster(side)
    yield "initdb", server.call("initdb", "-D", server.data, "-U", "postgres", "-A", "trust", "--data-checksums", "-E", "UTF8",
                                "--locale=C")[0]
    try:
        yield "start", server.start()
        yield "pgbench -i", server.client("pgbench", "-i", "-q", "-s", "2", "postgres")[0]
        yield "pgbench", server.client("pgbench", "-c", "4", "-j", "2", "-t", "150", "postgres")[0]
        yield "transactions", server.ask("select count(*) from pgbench_history")
        yield "balances", server.balances()
        yield "table", server.ask("create table kept (number int primary key)")
        load = subprocess.Popen(server.words("pgbench", "-h", server.sockets, "-p", str(server.port), "-U", "postgres", "-c", "4",
                                             "-T", "600", "postgres"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/")
        last = server.committed(400)
        load.wait()
        yield "start after kill -9", server.start()
        yield "balances after recovery", server.balances()
        yield "acknowledged rows are there", server.ask(f"select count(*) >= {last} and max(number) >= {last} from kept")
        yield "pg_amcheck", server.client("pg_amcheck", "--all", "--install-missing", "--heapallindexed")
        yield "vacuum, reindex", [server.ask("vacuum full"), server.ask("reindex database postgres")]
        yield "pg_dump", server.client("pg_dump", "-f", "/dev/null", "postgres")
        yield "pg_basebackup", server.client("pg_basebackup", "-D", server.data + "-copy", "-c", "fast")[0]
        yield "pg_verifybackup", server.call("pg_verifybackup", server.data + "-copy")
        yield "stop", server.stop()
        checked = server.call("pg_checksums", "--check", "-D", server.data)
        yield "pg_checksums", [checked[0], [line for line in checked[1].splitlines() if line.startswith("Bad")]]
    finally:
        if server.main and server.main.poll() is None:
            server.kill()
