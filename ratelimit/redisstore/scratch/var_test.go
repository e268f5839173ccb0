package scratch
import ("testing";"context";"fmt";"os";"time"
"github.com/google/uuid"
"github.com/sashlimit/sash/internal/redistest")
func TestVariants(t *testing.T){
 server:=redistest.Start(t); client:=server.Client(); ctx:=context.Background()
 cpu:=func()float64{ var a,b float64; l:=client.Info(ctx,"cpu").Val(); fmt.Sscanf(l[indexOf(l,"used_cpu_sys:")+13:],"%f",&a); fmt.Sscanf(l[indexOf(l,"used_cpu_user:")+14:],"%f",&b); return a+b}
 load:=func(f string)string{ b,err:=os.ReadFile(f); if err!=nil{t.Fatal(err)}; s,err:=client.ScriptLoad(ctx,string(b)).Result(); if err!=nil{t.Fatal(err)}; return s}
 zero,_:=client.ScriptLoad(ctx,"return 0").Result()
 v1,v2,rec:=load("/tmp/v1.lua"),load("/tmp/v2.lua"),load("/tmp/recipe.lua")
 key:=func(p string,i int)string{return fmt.Sprint(p,i%2000)}
 n:=0
 type call func(i int)(string,[]string,[]any)
 new:=func(sha,p string,batch,max int)call{return func(i int)(string,[]string,[]any){ var keys []string; args:=[]any{0,1,60000000,1,max,60000000,batch}; for range batch{n++; keys=append(keys,key(p,n)); args=append(args,1,1,1,1,uuid.NewString())}; return sha,keys,args}}
 group:=func(sha,p string,batch,max int)call{return func(i int)(string,[]string,[]any){ args:=[]any{0,1,60000000,1,max,60000000,1,1,1,1,batch}; for range batch{args=append(args,uuid.NewString())}; return sha,[]string{p},args}}
 for range 2 {
 for _,v:=range []struct{name string; batch int; c call}{
  {"return 0",1,func(i int)(string,[]string,[]any){return zero,[]string{"k"},nil}},
  {"the published recipe (client's clock)",1,func(i int)(string,[]string,[]any){n++;return rec,[]string{key("r",n)},[]any{time.Now().UnixMilli(),60000,1000,uuid.NewString()}}},
  {"before: closures, six commands",1,func(i int)(string,[]string,[]any){n++;return v1,[]string{key("a",n)},[]any{uuid.NewString(),1,60000000,1,10,60000000}}},
  {"now, limit 10, alone",1,new(v2,"b",1,10)},
  {"now, limit 1000, alone",1,new(v2,"c",1,1000)},
  {"now, limit 10, 16 in a call",16,new(v2,"e",16,10)},
  {"now, limit 10, 128 in a call",128,new(v2,"g",128,10)},
  {"now, limit 1000, 16 in a call",16,new(v2,"h",16,1000)},
  {"now, one hot key denied, 64 in a call",64,group(v2,"hot",64,10)},
  {"now, one hot key allowed, 64 in a call",64,group(v2,"hota",64,1000000)},
 }{ client.FlushDB(ctx); N:=40000/v.batch; c0:=cpu(); for i:=range N{ sha,keys,args:=v.c(i); if err:=client.EvalSha(ctx,sha,keys,args...).Err();err!=nil{t.Fatal(v.name,err)}}; c1:=cpu(); t.Logf("%-45s %6.2f us",v.name,(c1-c0)*1e6/float64(N*v.batch)) }
 }
}
