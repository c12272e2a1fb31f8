# Short names for what is run often. Everything here can be typed without just.

# The broker on its defaults, data in ./data.
serve *settings:
    cargo run --release -- serve {{settings}}

# fmt, clippy, tidy.
check:
    ./test check

# Instructions of the hot paths beside those recorded; `just guard --record` records.
guard *arguments:
    cargo xtask guard {{arguments}}

# Unit, property, crash-point and simulation tests.
test:
    ./test rust

# Real clients and the oracle.
clients *arguments:
    ./test clients {{arguments}}

# kill -9 under load, 50 rounds.
kill9 *arguments:
    ./test kill9 {{arguments}}

# Power cuts under load, 20 rounds; needs root.
powercut *arguments:
    ./test powercut {{arguments}}

# One simulated world again.
sim seed:
    FOREBAY_SIM_SEED={{seed}} cargo test -p forebay-sim --test seeds -- --nocapture

# Many simulated worlds and runs of brokers, from seed 0 on.
sim-many seeds="10000":
    FOREBAY_SIM_SEEDS={{seeds}} cargo test -p forebay-sim --test seeds -- --nocapture
    FOREBAY_SIM_SEEDS={{seeds}} cargo test -p forebay-broker --test seeds keep_their_promises -- --nocapture

# Every fuzz target for some seconds each; needs nightly and cargo-fuzz (fuzz/README.md).
fuzz seconds="60" *targets:
    fuzz/run {{seconds}} {{targets}}

# Licences, sources, advisories.
deny:
    cargo deny check

# Words and names of types that the ratchet on wording counts.
words:
    cargo xtask words

# Asserts, methods of types, circles of files.
structure:
    cargo xtask structure
