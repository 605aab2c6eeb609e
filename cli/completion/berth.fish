# Completion of berth's words in fish: the program itself says what a word can be.
function __berth_complete
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    set -l program (string replace -r '^~' $HOME -- $words[1])
    set -e words[1]
    set -l lines ($program __complete $words "$word" 2>/dev/null)
    set -l before (string match -r '^[^=]*=' -- $word)
    set -l value (string replace -r '^[^=]*=' '' -- $word)
    set -l place $lines[1]
    set -e lines[1]
    for line in $lines
        echo "$before$line"
    end
    switch "$place"
        case files
            __fish_complete_path $value | string replace -r '^' -- "$before"
        case folders
            __fish_complete_directories $value | string replace -r '^' -- "$before"
    end
end
complete -c berth -f -a '(__berth_complete)'
