#compdef snowflake
# zsh completion for snowflake.
_snowflake() {
	local line
	local -a candidates
	for line in "${(@f)$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
		[[ -n $line ]] && candidates+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
	done
	if (( ${#candidates} )); then
		_describe 'snowflake' candidates
	else
		_files
	fi
}
# Loaded from $fpath, this file is the body of the function; sourced, it has to register the function.
if [[ ${funcstack[1]} = _snowflake ]]; then
	_snowflake "$@"
else
	compdef _snowflake snowflake
fi
