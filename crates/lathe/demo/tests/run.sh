#!/bin/sh
# Runs all checks and says how many failed.
cd "$(dirname "$0")/.." || exit 1
. ./slugify.sh
failed=0
check() {
    got=$(slugify "$1")
    if [ "$got" = "$2" ]; then
        echo "ok    $1"
    else
        echo "FAIL  $1: wanted $2, got $got"
        failed=$((failed + 1))
    fi
}
check "Hello World" "hello-world"
check "Hello,   World!" "hello-world"
check "  Trim me  " "trim-me"
check "C++ & Rust" "c-rust"
echo "$failed failed"
[ "$failed" -eq 0 ]
