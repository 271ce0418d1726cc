#compdef heed
# Completion of heed in zsh: source <(heed completion zsh), or this file as _heed in a directory of $fpath.
# heed itself answers what fits, from the same table as its help.
_heed() {
  local -a candidates
  local line files=
  for line in ${(f)"$(${words[1]} __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)"}; do
    if [[ $line == :files ]]; then
      files=yes
    else
      # _describe takes word:description.
      line=${line//:/\\:}
      candidates+=("${line/$'\t'/:}")
    fi
  done
  (( $#candidates )) && _describe -t values 'heed' candidates
  [[ -n $files ]] && _files
  return 0
}
if [[ ${funcstack[1]} == _heed ]]; then
  _heed "$@"
else
  compdef _heed heed
fi
