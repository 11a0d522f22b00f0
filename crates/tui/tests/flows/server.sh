#!/bin/sh
# An MCP server in a few lines: a tool that asks the person, a prompt and a resource.
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
  case $line in
    *'"initialize"'*) answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"prompts":{},"resources":{}},"serverInfo":{"name":"tickets","version":"1"}}' ;;
    *'"tools/list"'*) answer '{"tools":[{"name":"file_ticket","description":"Files a ticket","inputSchema":{"type":"object"}}]}' ;;
    *'"prompts/list"'*) answer '{"prompts":[{"name":"triage","description":"Sorts tickets","arguments":[{"name":"team"}]}]}' ;;
    *'"prompts/get"'*) answer '{"messages":[{"role":"user","content":{"type":"text","text":"Please sort the tickets of the core team."}}]}' ;;
    *'"resources/templates/list"'*) answer '{"resourceTemplates":[]}' ;;
    *'"resources/list"'*) answer '{"resources":[{"uri":"ticket://open","name":"Open tickets"}]}' ;;
    *'"resources/read"'*) answer '{"contents":[{"uri":"ticket://open","text":"one open ticket"}]}' ;;
    *'"tools/call"'*)
      call=$id
      printf '%s\n' '{"jsonrpc":"2.0","id":9001,"method":"elicitation/create","params":{"message":"What is it about?","requestedSchema":{"type":"object","required":["title"],"properties":{"title":{"type":"string","title":"Title"}}}}}'
      IFS= read -r reply
      id=$call
      title=$(printf '%s' "$reply" | sed -n 's/.*"title":"\([^"]*\)".*/\1/p')
      answer "{\"content\":[{\"type\":\"text\",\"text\":\"filed: $title\"}]}"
      ;;
    *'"id":'*) answer '{}' ;;
  esac
done
