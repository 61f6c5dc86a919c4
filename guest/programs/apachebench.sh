#!/bin/sh
# SPDX-License-Identifier: MIT
# apachebench.sh DIR REQUESTS CONCURRENCY PORT: Apache httpd with its default page, ab as client,
# over loopback. Prints requests per second and the request times from ab's own list of quantiles,
# which has microseconds (its printed table has milliseconds). A failed request fails the run.
set -eu
dir=$1/httpd requests=$2 concurrency=$3 port=$4
modules=/usr/lib/apache2/modules
fail() {
    echo "$*" >&2
    exit 1
}

httpd=
for name in apache2 httpd; do
    httpd=$(command -v "$name") && break
done
[ -n "$httpd" ] || fail "no apache2 on PATH: apt-get install apache2-bin"
for folder in /usr/lib/apache2/modules /usr/lib64/httpd/modules /usr/lib/httpd/modules; do
    [ -d "$folder" ] && modules=$folder && break
done
rm -rf "$dir"
mkdir -p "$dir/page"
echo '<html><body><h1>It works!</h1></body></html>' >"$dir/page/index.html"
{
    for name in mpm_event authz_core dir unixd; do
        file=$modules/mod_$name.so # what is not there is built in
        [ -e "$file" ] && echo "LoadModule ${name}_module $file"
    done
    cat <<END
ServerRoot $dir
ServerName localhost
Listen 127.0.0.1:$port
PidFile $dir/pid
ErrorLog $dir/log
DocumentRoot $dir/page
DirectoryIndex index.html
MaxRequestWorkers 150
EnableSendfile Off
END
    # Apache does not serve as root. By number: a guest has no name service.
    [ "$(id -u)" -ne 0 ] || printf 'User #65534\nGroup #65534\n'
} >"$dir/httpd.conf"
chmod -R go+rX "$dir"

server=
stop() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || :
    [ -z "$server" ] || wait "$server" 2>/dev/null || :
    rm -rf "$dir"
}
trap stop EXIT
trap 'exit 1' INT TERM HUP
"$httpd" -f "$dir/httpd.conf" -DFOREGROUND >"$dir/said" 2>&1 &
server=$!
# The server is asked, not waited for by the clock.
tries=0
until grep -q 'resuming normal operations' "$dir/log" 2>/dev/null; do
    kill -0 "$server" 2>/dev/null || {
        said=$(cat "$dir/said" "$dir/log" 2>/dev/null | tail -n 3)
        server=
        case $said in
        *"ddress already in use"*) fail "port $port is in use; choose another: $said" ;;
        esac
        fail "httpd did not start: $said"
    }
    tries=$((tries + 1))
    [ "$tries" -lt 500 ] || fail "httpd did not come up: $(tail -n 3 "$dir/log" "$dir/said")"
    sleep 0.02
done

echo "kdyno: timed from here"
ab -q -n "$requests" -c "$concurrency" -e "$dir/quantiles" "http://127.0.0.1:$port/" \
    >"$dir/ab" 2>&1 || fail "ab failed: $(tail -n 3 "$dir/ab")"
echo "kdyno: timed to here"
awk -v wanted="$requests" '
    /^Complete requests:/ { complete = $3 }
    /^Failed requests:/ { failed = $3 }
    /^Write errors:/ { failed += $3 }
    /^Non-2xx responses:/ { failed += $3 }
    /^Requests per second:/ { rate = $4 }
    END {
        if (complete != wanted || failed + 0 > 0) {
            printf "%d of %d requests failed\n", wanted - complete + failed, wanted
            exit 1
        }
        printf "requests_per_s: %s\n", rate
    }' "$dir/ab" >"$dir/rate" || fail "$(cat "$dir/rate")"
cat "$dir/rate"
awk -F, '
    NR > 1 { time[$1] = $2; last = $1 }
    END {
        if (last != 100)
            exit 1
        # 101 quantiles: the middles of the steps between them stand for one per cent each.
        for (i = 0; i < 100; i++) {
            middle = (time[i] + time[i + 1]) / 2
            sum += middle
            squares += middle * middle
        }
        mean = sum / 100
        variance = squares / 100 - mean * mean
        printf "mean_ms: %.4f\nsd_ms: %.4f\n", mean, sqrt(variance > 0 ? variance : 0)
        printf "median_ms: %s\np90_ms: %s\np95_ms: %s\np99_ms: %s\nmax_ms: %s\n", \
            time[50], time[90], time[95], time[99], time[100]
    }' "$dir/quantiles" || fail "ab wrote no quantiles"
