# Completion of heed in bash: source <(heed completion bash)
# heed itself answers what fits, from the same table as its help.
_heed() {
  local current=${COMP_WORDS[COMP_CWORD]} line
  [[ $current == = ]] && current=
  COMPREPLY=()
  while IFS= read -r line; do
    if [[ $line == :files ]]; then
      compopt -o filenames 2>/dev/null
      while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$current")
    else
      COMPREPLY+=("${line%%$'\t'*}")
    fi
  done < <("${COMP_WORDS[0]}" __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _heed heed
