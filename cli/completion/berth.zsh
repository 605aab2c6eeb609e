#compdef berth
# Completion of berth's words in zsh: the program itself says what a word can be.
_berth() {
    local line meaning place
    local -a lines described
    lines=("${(@f)$("${words[1]/#\~/$HOME}" __complete "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
    place=$lines[1]
    for line in "${(@)lines[2,-1]}"; do
        meaning=${line#*$'\t'}
        described+=("${${line%%$'\t'*}//:/\\:}${meaning:+:$meaning}") # _describe shows an empty one, too
    done
    compset -P '*='
    (( $#described )) && _describe -t words word described
    case $place in
        files) _files ;;
        folders) _files -/ ;;
    esac
}
if [ "$funcstack[1]" = _berth ]; then
    _berth "$@"
else
    compdef _berth berth
fi
