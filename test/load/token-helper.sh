# A credential helper, as kubectl runs them: notes in a log that it was run, and writes the token of a file as an
# ExecCredential. Arguments: the token's file, the log.
echo run >> "$2"
printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s"}}' "$(cat "$1")"
