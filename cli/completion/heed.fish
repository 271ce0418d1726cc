# Completion of heed in fish: heed completion fish | source
# heed itself answers what fits, from the same table as its help.
function __heed_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l program $words[1]
    set -e words[1]
    for line in ($program __complete -- $words "$current" 2>/dev/null)
        if test "$line" = :files
            __fish_complete_path "$current"
        else
            printf '%s\n' $line
        end
    end
end
complete -c heed -f -a '(__heed_complete)'
