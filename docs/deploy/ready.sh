#!/bin/bash
# Succeeds once a version of $MODEL_NAME is available. The HTTP status does not show that: it is 200 as soon as the
# server knows the model, even if all versions failed. The image has no curl, so bash opens the connection.
exec 3<> "/dev/tcp/127.0.0.1/${PORT:-8501}" || exit 1
printf 'GET /v1/models/%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' "$MODEL_NAME" >&3
grep -q '"state": "AVAILABLE"' <&3
