#!/bin/sh
# Slurm Prolog: notes which physical GPUs each job was given on this node, for
# `flopwatch import slurm`. Slurm itself forgets them when a job ends.
#
# Install it unchanged on every node, as root's and writable by root alone, and name it in
# slurm.conf with PrologFlags=Alloc (else Slurm runs it at a job's first step, or never):
#   Prolog=/etc/slurm/flopwatch-prolog.sh
#   PrologFlags=Alloc
# It appends to NODE-YYYY-MM.csv (UTC) in /var/log/flopwatch-slurm, or in the folder that the first
# line of a file beside it names, called like it but ending in .conf (flopwatch-prolog.conf). A
# folder that all nodes share is fine: each node has files of its own. No Epilog is needed: the
# accounting database knows the ends.
#
# It never fails and never waits: a Prolog that fails drains its node.
umask 022
[ "${SLURM_SCRIPT_CONTEXT:-prolog_slurmd}" = prolog_slurmd ] || exit 0
[ -n "${SLURM_JOB_ID:-}" ] && [ -n "${SLURM_JOB_GPUS:-}" ] || exit 0
node=${SLURMD_NODENAME:-$(hostname -s)}
folder=/var/log/flopwatch-slurm
conf=${0%.sh}.conf
if [ -r "$conf" ]; then
  read -r line <"$conf" || true
  [ -z "$line" ] || folder=$line
fi
note() {
  mkdir -p "$folder" || return
  file=$folder/$node-$(date -u +%Y-%m).csv
  if [ ! -e "$file" ]; then
    # The header is there before any line, though several prologs may begin the file at once: only
    # one of them can link it into place.
    begun=$folder/.$node.$$
    echo time,cluster,job,node,gpus >"$begun" || return
    ln "$begun" "$file" 2>/dev/null
    rm -f "$begun"
  fi
  # One write of one line: lines of several jobs do not mix.
  printf '%s,%s,%s,%s,"%s"\n' "$(date +%s)" "${SLURM_CLUSTER_NAME:-}" "$SLURM_JOB_ID" "$node" \
    "$SLURM_JOB_GPUS" >>"$file"
}
note >/dev/null 2>&1
exit 0
