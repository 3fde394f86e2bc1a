# How many tests of what `cargo test` has printed ran over each kind of store, and passed.

BEGIN {
    split("standalone cluster embedded memory", stores)
    store_of["redis"] = "standalone"; store_of["redis_cluster"] = "cluster"
    store_of["embedded"] = "embedded"; store_of["memory"] = "memory"
}

/^test .* ok$/ {
    split($2, path, "::")
    by_name = $2 ~ /_a_cluster$/ ? "cluster" : $2 ~ /_a_file$/ ? "embedded" : $2 ~ /_memory$/ ? "memory" : "standalone"
    if (path[1] == "conformance" && path[2] in store_of) suite[store_of[path[2]]]++
    if ($2 ~ /^race::every_/) race[by_name]++
    if ($2 ~ /^exclusive::a_message_/) exclusive[by_name]++
}

END {
    print "store       driver suite   race   exclusive"
    for (i = 1; i <= 4; i++) {
        printf "%-11s %12d %6d %11d\n", stores[i], suite[stores[i]], race[stores[i]], exclusive[stores[i]]
    }
}
