# Arrays, nested dictionaries, sorting by a command, and closures over them.
set seed 1
proc next {} {
    global seed
    set seed [expr {($seed * 1103515245 + 12345) % 2147483648}]
}
array set stock {}
for {set i 0} {$i < 12000} {incr i} {
    set item "item[expr {[next] % 200}]"
    if {![info exists stock($item)]} {
        set stock($item) 0
    }
    incr stock($item) [expr {[next] % 10}]
}
proc byvalue {a b} {
    global stock
    set order [expr {$stock($b) - $stock($a)}]
    expr {$order ? $order : [string compare $a $b]}
}
set names [lsort -command byvalue [array names stock]]
foreach name [lrange $names 0 9] {
    puts "$name $stock($name)"
}
set tree [dict create]
for {set i 0} {$i < 8000} {incr i} {
    dict set tree [expr {[next] % 20}] [expr {[next] % 20}] leaf $i
}
set sum 0
foreach branch [lsort -integer [dict keys $tree]] {
    foreach {key value} [dict get $tree $branch] {
        if {[catch {incr sum [dict get $value leaf]} message]} {
            puts $message
        }
    }
}
puts $sum
puts [llength [lmap x $names {list $x [string length $x]}]]
