// Evaluates deploy/workflows/nextflow/jobsight.config as Nextflow does: closures of `ext` are cloned, with the task's
// variables as their delegate, each time that they are read. A line of JSON on standard input is a task; the line on
// standard output has memory and time as the directives would have them, and the milliseconds that each took.

import groovy.json.JsonOutput
import groovy.json.JsonSlurper
import java.nio.file.Paths

class Ext extends HashMap {
    Map variables

    Object get(Object key) {
        def copy = super.get(key).clone()
        copy.delegate = variables
        copy.resolveStrategy = Closure.DELEGATE_FIRST
        return copy.call()
    }
}

class Amount {
    long value
    long toBytes() { value }
    long toMillis() { value }
    String toString() { "own ${value}" }
}

def ext = new ConfigSlurper().parse(new File(args[0]).toURI().toURL()).process.ext
System.in.eachLine { line ->
    def asked = new JsonSlurper().parseText(line)
    def variables = [meta: [id: 's1'], reads: asked.files.collect { Paths.get(it) }, index: Paths.get('/nonexistent').parent]
    def task = [process: asked.process, cpus: asked.cpus, attempt: asked.attempt, ext: new Ext(variables: variables)]
    task.ext.putAll(ext)
    variables.task = task
    def answer = [:]
    ['memory', 'time'].each { directive ->
        def started = System.nanoTime()
        def amount = asked.own == null ? null : asked.own[directive]
        def own = amount == null ? null : new Amount(value: amount)
        if (asked.scaled) {
            own = { attempt -> new Amount(value: amount * attempt) }
        }
        def found = task.ext.jobsight.call(directive, own)
        answer[directive] = [found?.toString(), (System.nanoTime() - started) / 1000000]
    }
    answer.size = task.ext.jobsight_size
    (asked.forget ?: []).each { System.clearProperty(it) }
    println JsonOutput.toJson(answer)
}
