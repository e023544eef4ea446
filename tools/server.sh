# What tools/prometheus, tools/victoriametrics and their like have in common: one program, fetched
# once into a cache, started on a port of 127.0.0.1, and its folder. Sourced by them; they set:
#   tool     the name in messages
#   program  the file to run, or "" while none is there
#   get      a function that fetches it into $cache and sets program, or calls cannot
#   options  a function that prints the options to start with, one a line, for the folder $dir
#   ready    the path that answers 200 when it is ready
# and may set:
#   listens  where options cannot leave the choice of the port to the kernel, the one that they name
#   before   a function that is called before options
#   launcher what starts the program, and ends with it
#   urls     a function that prints what start prints, given the URL of the port
# shellcheck shell=bash

cache=${FLOPWATCH_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/flopwatch}

launcher=()
listens=
urls() { printf '%s\n' "$1"; }

say() { printf '%s: %s\n' "$tool" "$*" >&2; }
die() { say "$*"; exit 1; }
cannot() { say "$*"; exit 77; }
limited() { timeout -k 2 "$@"; }

# get_once FILE COMMAND…: runs the command, one process at a time, unless FILE is there by then. Its
# output is shown where it fails.
get_once() {
  local file=$1 log ok=yes
  shift
  [ ! -x "$file" ] || return 0
  mkdir -p "$cache" || cannot "cannot make $cache (FLOPWATCH_CACHE says where else)"
  exec 8>"$cache/.$tool.lock"
  limited 900 flock 8 || die "another process fetches $tool and does not end"
  if [ ! -x "$file" ]; then
    log=$(mktemp)
    "$@" >"$log" 2>&1 </dev/null 8>&- && [ -x "$file" ] || ok=no
    [ $ok = yes ] || tail -n 3 "$log" >&2
    rm -f "$log"
  fi
  exec 8>&-
  [ $ok = yes ]
}

# Prints so many different ports that nobody listens on, for servers that cannot be told to take
# any.
free_ports() {
  local port=$((20000 + RANDOM % 12000)) left=$1
  for (( ; left > 0; port++)); do
    ! grep -qi "^ *[0-9]*: [0-9A-F]*:$(printf '%04X' $port) " /proc/net/tcp || continue
    printf '%d\n' $port
    left=$((left - 1))
  done
}

# make_module FILE MODULE VERSION PACKAGE TAGS: builds a package of a module that `go install` does
# not take, because its go.mod replaces others.
make_module() {
  local file=$1 module=$2 version=$3 package=$4 tags=$5 from work
  from=$(GOFLAGS=-mod=mod limited 600 go mod download -json "$module@$version" |
    sed -n 's/^\t*"Dir": "\(.*\)",*$/\1/p') && [ -d "$from" ] || return
  work=$(mktemp -d "$cache/.build-XXXXXX") || return
  (cp -r "$from/." "$work" && chmod -R u+w "$work" && cd "$work" &&
    GOFLAGS="-p=2 -buildvcs=false -mod=mod" limited 1700 nice -n 15 go build -tags "$tags" \
      -ldflags "-s -w" -o "$work/built" "$package" &&
    mkdir -p "$(dirname "$file")" && mv "$work/built" "$file")
  local rc=$?
  rm -rf "$work"
  return $rc
}

# The server of $dir, if it runs: its environment says whose it is. A zombie is over (process 1 may
# reap late).
running() {
  local pid
  pid=$(cat "$dir/pid" 2>/dev/null) && [ -n "$pid" ] &&
    grep -qzxF "FLOPWATCH_SERVER_DIR=$dir" "/proc/$pid/environ" 2>/dev/null &&
    ! grep -q '^State:[[:space:]]*Z' "/proc/$pid/status" 2>/dev/null && printf '%s\n' "$pid"
}

# The port that process $1 listens on at 127.0.0.1.
port_of() {
  local inode port
  for inode in $(find "/proc/$1/fd" -lname 'socket:*' -printf '%l\n' 2>/dev/null |
    sed 's/.*\[\(.*\)\]/\1/'); do
    # Local address, remote address, state (0A listens), …, inode.
    port=$(sed -n "s/^ *[0-9]*: 0100007F:\([0-9A-F]*\) [0-9A-F:]* 0A .* $inode .*/\1/p" \
      /proc/net/tcp)
    [ -z "$port" ] || { printf '%d\n' "0x$port"; return; }
  done
  return 1
}

end_server() {
  local pid deadline
  pid=$(running) || return 0
  kill -- "-$pid" 2>/dev/null  # it leads a group, of what it needs beside it
  deadline=$((SECONDS + 10))
  while running >/dev/null; do
    [ $SECONDS -lt $deadline ] || kill -9 -- "-$pid" 2>/dev/null
    [ $SECONDS -lt $((deadline + 10)) ] || die "process $pid of $dir does not end"
    sleep 0.05
  done
}

start_server() {
  local line pid port deadline made=no arguments=()
  [ -n "$program" ] || get
  if [ ! -d "$dir" ]; then
    mkdir -p "$dir" || die "cannot make $dir"
    made=yes
  fi
  dir=$(cd "$dir" && pwd -P)
  if [ -e "$dir/.flopwatch-$tool" ]; then
    ! running >/dev/null || die "one runs in $dir already (tools/$tool stop $dir)"
  else
    [ -z "$(ls -A "$dir")" ] || die "$dir is not empty"
    printf '%s\n' "$made" >"$dir/.flopwatch-$tool"
  fi
  [ -z "$(type -t before)" ] || before
  while read -r line; do arguments+=("$line"); done < <(options)
  # It ends with the shell that started it only if someone ends it: no signal of a terminal.
  FLOPWATCH_SERVER_DIR=$dir setsid "${launcher[@]}" "$program" "${arguments[@]}" "$@" \
    >"$dir/log" 2>&1 </dev/null &
  pid=$!
  disown
  printf '%s\n' "$pid" >"$dir/pid"
  deadline=$((SECONDS + 30))
  until port=${listens:-$(port_of "$pid")} &&
    limited 2 curl -fsS "http://127.0.0.1:$port$ready" >/dev/null 2>&1; do
    if [ $SECONDS -ge $deadline ] || [ ! -e "/proc/$pid" ] ||
      grep -q '^State:[[:space:]]*Z' "/proc/$pid/status"; then
      tail -n 5 "$dir/log" >&2
      end_server
      die "it did not start (its files are left: tools/$tool stop $dir)"
    fi
    sleep 0.05
  done
  urls "http://127.0.0.1:$port"
}

# Only what start made, or the server: DIR itself stays if it was there before.
stop_server() {
  local made
  [ -e "$dir/.flopwatch-$tool" ] || { say "nothing was started in $dir"; return 0; }
  end_server
  [ "$keep" = no ] || return 0
  made=$(cat "$dir/.flopwatch-$tool")
  rm -rf "${dir:?}/data" "$dir/log" "$dir/pid" "$dir/config.yml" "$dir/.flopwatch-$tool"
  [ "$made" = no ] || rmdir "$dir" 2>/dev/null || true
}

# main COMMAND…, after the functions above are there.
server_main() {
  local command=${1:-}
  [ $# = 0 ] || shift
  dir=
  keep=no
  while [ $# != 0 ]; do
    case "$1" in
      --) shift; break ;;
      --keep) keep=yes ;;
      --program)
        program=${2:-}
        [ -x "$program" ] || die "--program needs a file that can be run"
        shift
        ;;
      --help | -h) usage; exit 0 ;;
      -*) die "$1 is no option (tools/$tool --help)" ;;
      *) [ -z "$dir" ] || die "one folder at a time (tools/$tool --help)"; dir=$1 ;;
    esac
    shift
  done
  case "$command" in
    install) [ -n "$program" ] || get; printf '%s\n' "$program" ;;
    start | stop)
      [ -n "$dir" ] || die "$command needs a folder (tools/$tool --help)"
      [ ! -d "$dir" ] || dir=$(cd "$dir" && pwd -P)
      "${command}_server" "$@"
      ;;
    --help | -h | help) usage ;;
    *) usage >&2; exit 1 ;;
  esac
}
