#!/usr/bin/env bash
# The commands of the deployment, each in one place.
#
#   deploy.sh all               on one machine: everything below, one run, and an end to all of it
#
# At the server:
#   deploy.sh certificate       an authority, keys/ca.crt, and a certificate for the address SERVER
#   deploy.sh build             pack the app into shelf/
#   deploy.sh server            Flower's SuperLink, which hands out the app with its signatures
#   deploy.sh register NAME     admit a hospital by keys/NAME.pub
#   deploy.sh train [SETTINGS]  one run, which writes model.json; settings such as 'rounds=2'
#
# At a hospital:
#   deploy.sh key NAME          its two keys: one to log in, one to sign
#   deploy.sh sign NAME         sign the app in shelf/, and trust nothing else
#   deploy.sh node NAME         its node, which reads data/NAME.csv
#
# SERVER (127.0.0.1) is the address at which hospitals reach the server, and PORT (8443) its port. With
# another SERVER the server listens at all addresses of its machine, and otherwise at 127.0.0.1 alone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

# No telemetry, and a node looks for work ten times a second in place of once.
export FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1 FLWR_HOME=$PWD/flwr FLWR_SUPEREXEC_TASK_POLL_INTERVAL=0.1
SERVER=${SERVER:-127.0.0.1}
PORT=${PORT:-8443}
HOSPITALS="cleveland budapest switzerland long_beach"

fail() {
    echo "deploy.sh: $*" >&2
    exit 1
}

certificate() {
    mkdir -p keys
    if [ ! -f keys/ca.crt ]; then
        openssl ecparam -name prime256v1 -genkey -noout -out keys/ca.key
        openssl req -new -x509 -key keys/ca.key -sha256 -days 365 -subj "/CN=hospitals" -addext "keyUsage=critical,keyCertSign" -out keys/ca.crt
    fi
    case $SERVER in
        *[!0-9.]*) kind=DNS ;;
        *) kind=IP ;;
    esac
    echo "subjectAltName=DNS:localhost,IP:127.0.0.1,$kind:$SERVER" > keys/names
    openssl ecparam -name prime256v1 -genkey -noout -out keys/server.key
    openssl req -new -key keys/server.key -subj "/CN=localhost" -out keys/server.csr
    openssl x509 -req -in keys/server.csr -CA keys/ca.crt -CAkey keys/ca.key -CAcreateserial -days 365 -sha256 -extfile keys/names -out keys/server.crt
}

build() {
    mkdir -p shelf
    rm -f shelf/*
    flwr build
    mv hospitals.hospitals.*.fab shelf
}

server() {
    listen=0.0.0.0
    [ "$SERVER" != 127.0.0.1 ] || listen=127.0.0.1
    exec python superlink.py shelf --host "$listen" --port "$PORT" --ssl-ca-certfile keys/ca.crt --ssl-certfile keys/server.crt --ssl-keyfile keys/server.key --enable-supernode-auth --disable-runtime-dependency-installation
}

# Tells Flower's command line where the server is, which is this machine.
configure() {
    mkdir -p flwr
    printf '[superlink]\ndefault = "hospitals"\n\n[superlink.hospitals]\naddress = "127.0.0.1:%s"\nroot-certificates = "%s/keys/ca.crt"\n' "$PORT" "$PWD" > flwr/config.toml
}

register() {
    configure
    flwr supernode register "keys/$1.pub"
}

train() {
    configure
    rm -f model.json
    flwr run @hospitals/hospitals==1.0.0 hospitals --stream --run-config "model='$PWD/model.json' ${1:-}"
    [ -f model.json ] || fail "the run has written no model.json; its last lines say why"
}

key() {
    mkdir -p keys
    [ -f "keys/$1" ] || ssh-keygen -q -t ecdsa -b 384 -N "" -C "$1" -f "keys/$1"
    [ -f "keys/$1.sign" ] || ssh-keygen -q -t ed25519 -N "" -C "$1" -f "keys/$1.sign"
    echo "$1: $(cut -d ' ' -f 1,2 "keys/$1.sign.pub")" > "keys/$1.trusted"
}

sign() {
    set -- "$1" shelf/*.fab
    [ $# = 2 ] || fail "expected one app in shelf/, and there are $(($# - 1)); remove the old"
    python sign.py "$2" "keys/$1.sign" "$1"
}

node() {
    index=$(index_of "$1")
    [ -f "data/$1.csv" ] || fail "there is no table data/$1.csv"
    exec python node.py flower-supernode --superlink "$SERVER:$PORT" --root-certificates keys/ca.crt --auth-supernode-private-key "keys/$1" --trusted-entities "keys/$1.trusted" --port "$((9101 + index))" --node-config "partition-id=$index name='$1' data='$PWD/data/$1.csv'"
}

index_of() {
    index=0
    for name in $HOSPITALS; do
        [ "$name" != "$1" ] || { echo $index; return; }
        index=$((index + 1))
    done
    fail "'$1' is no hospital; expected one of $HOSPITALS"
}

# On one machine: what was started, as PROCESS:LOG, and the run.
STARTED=""
RUN=""

all() {
    ! is_open || fail "something listens at port $PORT already; end it first"
    python make_data.py data
    certificate
    build
    for name in $HOSPITALS; do
        key "$name"
        sign "$name"
    done

    mkdir -p logs
    set -m # each of the following has a process group of its own, which ends as a whole
    trap end EXIT
    trap 'exit 1' INT TERM
    start server
    until is_open; do
        check
        sleep 0.2
    done
    for name in $HOSPITALS; do
        register "$name"
        start node "$name"
    done
    bash deploy.sh train "$@" &
    RUN=$!
    while kill -0 $RUN 2> /dev/null; do
        check
        sleep 0.5
    done
    wait $RUN || fail "the run has failed"
    for name in $HOSPITALS; do
        python measure.py model.json "data/$name.csv" > "logs/measure_$name.log"
    done
    echo "logs/measure_NAME.log says how good model.json is at each hospital."
}

start() {
    log=logs/$(echo "$*" | tr ' ' _).log
    bash deploy.sh "$@" > "$log" 2>&1 &
    STARTED="$STARTED $!:$log"
}

# Fails if anything that was started has ended.
check() {
    for process in $STARTED; do
        kill -0 "${process%%:*}" 2> /dev/null || fail "a process has ended: see ${process#*:}"
    done
}

is_open() {
    (exec 3<> "/dev/tcp/127.0.0.1/$PORT") 2> /dev/null
}

end() {
    for signal in TERM KILL; do
        for process in $RUN $STARTED; do
            kill -$signal -- "-${process%%:*}" 2> /dev/null || true
        done
        sleep 1
    done
    wait
    echo "All processes have ended."
}

case ${1:-} in
    all | certificate | build | server | register | train | key | sign | node) "$@" ;;
    *) sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p;}' deploy.sh >&2; exit 2 ;;
esac
