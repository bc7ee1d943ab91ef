# Counts words of the text on standard input, and rewrites lines by regular expressions.
array set count {}
set changed 0
while {[stdin gets line] >= 0} {
    foreach word [split $line] {
        incr count($word)
    }
    incr changed [regsub -all {([aeiou])([^aeiou ])} $line {\2\1} line]
    if {[string match "*cl*" $line] || [string first "vn" $line] >= 0} {
        append kept [string toupper [string range $line 0 20]] "\n"
    }
}
set pairs {}
foreach {word n} [array get count] {
    lappend pairs [list $n $word]
}
foreach pair [lrange [lsort -decreasing -integer -index 0 $pairs] 0 20] {
    puts [format "%6d %s" {*}$pair]
}
puts "$changed [string length $kept]"
