# Completion of berth's words in bash: the program itself says what a word can be.
_berth() {
    local program=${COMP_WORDS[0]/#\~/$HOME} word=${COMP_WORDS[COMP_CWORD]} line place
    local -a words=() lines
    COMPREPLY=()
    # Bash divides "--name=value" into three words.
    for line in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
        if [[ ${#words[@]} -gt 0 && ($line == = || ${words[-1]} == *=) ]]; then
            words[-1]+=$line
        else
            words+=("$line")
        fi
    done
    mapfile -t lines < <("$program" __complete "${words[@]}" 2>/dev/null)
    place=${lines[0]}
    for line in "${lines[@]:1}"; do
        COMPREPLY+=("${line%%$'\t'*}")
    done
    case $place in
        files) compopt -o default ;;
        folders) compopt -o plusdirs ;;
    esac
}
complete -F _berth berth
