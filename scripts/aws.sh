#!/usr/bin/env bash
# aws.sh up|down: starts and stops servers of S3 and DynamoDB on 127.0.0.1 for a
# person who tries the AWS backend. Their data stays in .aws/. `up` prints shell
# commands that point mneme at them: eval "$(make -s aws-up)".
set -euo pipefail
cd "$(dirname "$0")/.."

data=$PWD/.aws
servers=${MNEME_TEST_SERVERS:-${XDG_CACHE_HOME:-$HOME/.cache}/mneme-test-servers}
s3_port=${MNEME_AWS_S3_PORT:-7070}
dynamodb_port=${MNEME_AWS_DYNAMODB_PORT:-8000}

say() { printf '%s\n' "$*" >&2; }

answers() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# pid_of NAME: its process id, if it runs and is still that server.
pid_of() {
	local pid
	pid=$(cat "$data/$1.pid" 2>/dev/null) && [[ -n $pid && $(readlink "/proc/$pid/exe" 2>/dev/null) == */"$1"* ]] && echo "$pid"
}

start() { # name port command...
	local name=$1 port=$2 pid
	shift 2
	if pid=$(pid_of "$name"); then
		say "$name runs already, as process $pid."
		return
	fi
	if answers "$port"; then
		say "Something else listens on 127.0.0.1:$port. Stop it, or set MNEME_AWS_S3_PORT or MNEME_AWS_DYNAMODB_PORT to another port."
		exit 1
	fi
	setsid "$@" >"$data/$name.log" 2>&1 </dev/null &
	pid=$!
	echo "$pid" >"$data/$name.pid"
	for ((i = 0; i < 200; i++)); do
		if answers "$port"; then
			say "$name answers on 127.0.0.1:$port."
			return
		fi
		kill -0 "$pid" 2>/dev/null || break
		sleep 0.05
	done
	say "$name did not start; it said:"
	cat "$data/$name.log" >&2
	exit 1
}

up() {
	scripts/install-test-servers.sh >&2
	mkdir -p "$data/s3" "$data/s3v"
	start versitygw "$s3_port" "$servers/versitygw" --access test --secret testtest --port "127.0.0.1:$s3_port" \
		--region us-east-1 --quiet --health /healthz posix --versioning-dir "$data/s3v" "$data/s3"
	start dynoxide "$dynamodb_port" "$servers/dynoxide" serve --host 127.0.0.1 --port "$dynamodb_port" --db-path "$data/dynamodb.sqlite"
	cat <<END
export AWS_ENDPOINT_URL_S3=http://127.0.0.1:$s3_port
export AWS_ENDPOINT_URL_DYNAMODB=http://127.0.0.1:$dynamodb_port
export AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=testtest AWS_REGION=us-east-1
export MNEME_URL='aws://mneme?table=mneme'
END
	say
	say "Run the lines above (or: eval \"\$(make -s aws-up)\"), then, once:"
	say "  bin/mneme setup && bin/mneme store create notes"
	say "and mount:"
	say "  bin/mneme mount notes --at ./mnt/aws"
	say "Stop the servers with \`make aws-down\`; their data stays in .aws/."
}

down() {
	local name pid
	for name in versitygw dynoxide; do
		if pid=$(pid_of "$name"); then
			kill "$pid"
			for ((i = 0; i < 100; i++)); do
				kill -0 "$pid" 2>/dev/null || break
				sleep 0.05
			done
			! kill -0 "$pid" 2>/dev/null || kill -9 "$pid"
			say "$name is stopped."
		else
			say "$name does not run."
		fi
		rm -f "$data/$name.pid"
	done
}

case ${1:-} in
up) up ;;
down) down ;;
*)
	say "usage: $0 up|down"
	exit 2
	;;
esac
