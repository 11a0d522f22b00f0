# Turns a title into the part of an address: `Hello, World` becomes `hello-world`.
slugify() {
    printf '%s' "$1" |
        tr '[:upper:]' '[:lower:]' |
        sed 's/[^a-z0-9]/-/g' |
        sed 's/^-*//; s/-*$//'
}
